# SPDX-License-Identifier: BSD-3-Clause
"""Calls of stores written in Python: their execution, and the status and log of exceptions."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, ParamSpec, TypeVar

from nvmf.errors import Error
from nvmf.spec.status import Status, status_name
from nvmf.target.io.engine import Store as NativeStore
from nvmf.target.io.pystore import Data, Store

log = logging.getLogger("nvmf.target")

_P = ParamSpec("_P")
_T = TypeVar("_T")

PAUSE = 10.0
"""Minimum seconds between two messages of one kind."""
_KINDS_MOST = 32
_SAYS_ENOUGH = (OSError, Error, asyncio.CancelledError)
"""Exceptions that report a failure outside the store, such as the legs of a mirror."""
_ERRNO_MOST = 4095
_FUA, _DEALLOCATE = 1, 2
_ZEROES = bytes(128 << 10)


class Operation(IntEnum):
    """The operation of a call, as numbered by the engine."""

    READ = 0
    WRITE = 1
    FLUSH = 2
    WRITE_ZEROES = 3
    DEALLOCATE = 4


class Call(NamedTuple):
    """A call from the engine: nvmf.engine.Store.take."""

    number: int
    operation: int
    flags: int
    offset: int
    """Bytes."""
    length: int
    """Bytes."""
    data: bytes | None

    def __str__(self) -> str:
        name = Operation(self.operation).name.replace("_", " ").lower()
        if self.operation == Operation.FLUSH:
            return name
        return f"{name} of {self.length} bytes at byte {self.offset}"


async def perform(store: Store, call: Call, native: NativeStore) -> Data | None:
    """Do a call; return the data of a read."""
    match call.operation:
        case Operation.READ:
            return _checked(await _call(store.read, call.offset, call.length), call.length)
        case Operation.WRITE:
            assert call.data is not None
            await _call(store.write, call.offset, call.data)
        case Operation.WRITE_ZEROES:
            await _zero(store, call)
        case Operation.DEALLOCATE:
            await _call(store.deallocate, call.offset, call.length)
    cached = call.flags & _FUA and native.volatile_write_cache
    if call.operation == Operation.FLUSH or cached:
        await _call(store.flush)
    return None


async def _call(method: Callable[_P, Awaitable[_T]], *args: _P.args, **named: _P.kwargs) -> _T:
    """Call a method of a store; raise TypeError with its name if it is not async."""
    returned: object = method(*args, **named)
    if not inspect.isawaitable(returned):
        name = f"{getattr(method, '__qualname__', method)}()"
        raise TypeError(f"{name} must be async: it returned {type(returned).__name__}")
    result: _T = await returned
    return result


async def _zero(store: Store, call: Call) -> None:
    if call.flags & _DEALLOCATE and type(store).overrides("deallocate"):
        await _call(store.deallocate, call.offset, call.length)
        return
    for start in range(0, call.length, len(_ZEROES)):
        piece = min(call.length - start, len(_ZEROES))
        await _call(store.write, call.offset + start, _ZEROES[:piece])


def _checked(data: Data, length: int) -> Data:
    """Return contiguous bytes of the right length; raise TypeError or ValueError otherwise."""
    with memoryview(data) as view:
        if view.nbytes != length:
            raise ValueError(f"{view.nbytes} bytes were returned, {length} were requested")
        return data if view.c_contiguous else bytes(view)


def status_of(error: BaseException, call: Call) -> tuple[Status, int]:
    """Return the NVMe status of an exception, and its errno or 0."""
    number = _errno_of(error)
    reads = call.operation == Operation.READ
    match number:
        case errno.ENOSPC | errno.EDQUOT:
            return Status.CAPACITY_EXCEEDED, number
        case errno.EIO:
            return Status.UNRECOVERED_READ_ERROR if reads else Status.WRITE_FAULT, number
    refused = isinstance(error, PermissionError) or number in (errno.EROFS, errno.EBADF)
    if refused:
        status = Status.ACCESS_DENIED if reads else Status.NAMESPACE_WRITE_PROTECTED
        return status, number or errno.EPERM
    if isinstance(error, asyncio.CancelledError | TimeoutError):
        return Status.INTERNAL_ERROR, number or errno.ETIMEDOUT
    return Status.INTERNAL_ERROR, number


def _errno_of(error: BaseException) -> int:
    """Return the errno of an exception, or 0: OSError("text", x) has the text as its errno."""
    number: object = error.errno if isinstance(error, OSError) else None
    return number if isinstance(number, int) and 0 < number <= _ERRNO_MOST else 0


def text_of(error: BaseException) -> str:
    """Return the type and the text of an exception, even if its __str__() fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException as failed:
        return f"{type(error).__name__}, whose text cannot be had ({type(failed).__name__})"


@dataclass
class _Told:
    until: float
    suppressed: int = 0


class StoreFailures:
    """Logs exceptions of a store: the first of each kind, then at most one every PAUSE seconds."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._told: dict[tuple[int, str, int], _Told] = {}

    def tell(self, store: Store, call: Call, error: BaseException, status: int) -> None:
        """Log an exception; one whose text may not suffice, with its traceback."""
        kind = (call.operation, type(error).__name__, _errno_of(error))
        told, now = self._told.get(kind), time.monotonic()
        if told is not None and now < told.until:
            told.suppressed += 1
            return
        if told is None and len(self._told) >= _KINDS_MOST:
            return
        self._told[kind] = _Told(now + PAUSE)
        many = f" ({told.suppressed} more since the last message)" if told is not None else ""
        reason = text_of(error)
        if isinstance(error, asyncio.CancelledError):
            reason = f"it did not end within {store.time_limit:g} s"
        log.error(
            "%s: %s failed with %s: %s: %s%s",
            self._where, call, status_name(status, io=True), type(store).__name__, reason, many,
            exc_info=None if isinstance(error, _SAYS_ENOUGH) else error,
        )  # fmt: skip
