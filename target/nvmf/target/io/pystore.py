# SPDX-License-Identifier: BSD-3-Clause
"""Stores written in Python: their base class, and the names that configurations give."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

Data: TypeAlias = "bytes | bytearray | memoryview"
"""Bytes of blocks."""

ENTRY_POINTS = "nvmf.target.stores"
"""The group of entry points with which an installed package offers stores."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.#-]*")


class Store(ABC):
    """The storage of a namespace, written in Python, for experiments, tests and gateways.

    Subclasses set ``size`` and implement read(), and write() unless the store is read only.  The
    target calls the methods on a thread with an event loop of this store: a method that blocks
    delays this store's commands and nothing else.  Up to ``max_calls`` calls run at the same time
    as tasks of that loop, in any order.  No two calls that overlap run together if one of them
    changes data; so a block is never read while it is being written.

    A command that has no result within ``time_limit`` ends with Internal Error, and its task is
    cancelled.  Until the task has ended, it counts as one of ``max_calls``, and commands that
    overlap a write that has not ended wait.

    An exception ends the command with an NVMe status: OSError with ENOSPC or EDQUOT becomes
    Capacity Exceeded; EIO, Unrecovered Read Error or Write Fault; PermissionError, Access Denied
    for reads and Namespace is Write Protected for others, as EROFS does; any other exception,
    Internal Error.  The target logs it, at most every 10 s for each kind.
    """

    size: int
    """Bytes; a multiple of block_size.  Read when the namespace is opened or resized."""
    block_size: int = 512
    """Bytes of a logical block, 512 or 4096; 4096 if the configuration says so."""
    physical_block_size: int = 0
    """Bytes of a write that is efficient: a power of two; 0: block_size."""
    read_only: bool | None = None
    """Hosts cannot write; None: if write() is not overridden."""
    volatile_write_cache: bool | None = None
    """Writes may be lost in a crash until flush() returns; None: if flush() is overridden."""
    max_calls: int = 64
    """Maximum calls at a time, 1 to 64.  One reactor alone uses two thirds of them."""
    max_bytes: int = 8 << 20
    """Maximum bytes that these calls read and write together; one larger call is allowed."""
    time_limit: float = 10.0
    """Seconds from a command's arrival to its end; also for open() and close()."""

    async def open(self) -> None:  # noqa: B027 - optional, as those below
        """Prepare the store; called once, before size is read and before all other methods."""

    @abstractmethod
    async def read(self, offset: int, length: int) -> Data:
        """Return exactly length bytes from offset; both are multiples of the block size."""

    async def write(self, offset: int, data: bytes) -> None:
        """Write data at offset; both are whole blocks.

        After a crash, each block must have its old or its new content.  Without a volatile write
        cache, data must be stable when this returns.
        """
        raise PermissionError("the store has no write()")

    async def flush(self) -> None:  # noqa: B027
        """Make all writes stable that have returned.  Called too for writes with FUA."""

    async def deallocate(self, offset: int, length: int) -> None:  # noqa: B027
        """Free the blocks, up to 16 MiB: they must read as zeroes from now on.

        If this is not overridden, hosts are told that deallocation is not supported.
        """

    async def close(self) -> None:  # noqa: B027
        """Release everything; called once, after all other calls have ended or were cancelled."""

    @classmethod
    def overrides(cls, method: str) -> bool:
        """Return whether a subclass has implemented an optional method."""
        return getattr(cls, method) is not getattr(Store, method)


Factory: TypeAlias = Callable[..., Store]
"""Makes a store from the options of a namespace, which are keyword arguments: often a class."""

_factories: dict[str, Factory] = {}


def register_store(name: str, factory: Factory) -> None:
    """Let namespaces with ``store = "python"`` and ``python = NAME`` use stores of this factory.

    The factory is called with the namespace's options, on the thread of the new store.  Installed
    packages need not call this: they name factories as entry points of the group
    ``nvmf.target.stores``.

    Raises:
        ValueError: The name is invalid, or in use.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of letters, digits and . _ - #")
    if name in _factories:
        raise ValueError(f"there is already a Python store with the name {name}")
    _factories[name] = factory


def unregister_store(name: str) -> None:
    """Remove a name; namespaces that use its stores keep them."""
    _factories.pop(name, None)


def require_store(store: object) -> Store:
    """Return store, or raise TypeError if it is not a Store."""
    if isinstance(store, Store):
        return store
    if isinstance(store, type) and issubclass(store, Store):
        raise TypeError(f"{store.__name__} is a class of stores: give an object of it")
    raise TypeError(f"{store!r} is not a store: its class must be derived from nvmf.target.Store")


def register_object(store: Store) -> str:
    """Register a store that exists, for one namespace; return the name that it was given."""
    kind = type(store)
    base = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{kind.__module__}.{kind.__qualname__}")
    name, number = base, 1
    while name in _factories:
        number += 1
        name = f"{base}#{number}"
    used = False

    def once() -> Store:
        nonlocal used
        if used:
            raise ValueError("a Store object serves one namespace once: register its class instead")
        used = True
        return store

    register_store(name, once)
    return name


def find_factory(name: str) -> Factory:
    """Return the factory of a registered name, an entry point, or MODULE:CLASS; may import it.

    Raises:
        LookupError: There is none; the message says what there is.
    """
    if name in _factories:
        return _factories[name]
    offered = importlib.metadata.entry_points(group=ENTRY_POINTS)
    for point in offered.select(name=name):
        loaded: Factory = point.load()
        return loaded
    module, colon, attribute = name.partition(":")
    if not colon:
        known = sorted({*_factories, *offered.names})
        raise LookupError(
            f'no Python store has the name "{name}" (there is: {", ".join(known) or "none"}); '
            'register it, or name its class as python = "MODULE:CLASS"'
        )
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"cannot import the Python store {name}: {error}") from error
    if not callable(found):
        kind = type(found).__name__
        raise LookupError(f"the Python store {name} is a {kind}, not a class or a function")
    factory: Factory = found
    return factory
