# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory of a target: the methods write-read, write-flush and write-send, for asyncio."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from typing_extensions import Buffer

from nvmf import engine
from nvmf.auth import Key
from nvmf.initiator import TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.pmem.gathering import all_of
from nvmf.pmem.opening import Secrets, accepted_depth, open_range, refusal
from nvmf.pmem.platform import FLUSH, MEMORY_METHODS, MethodRefused, assumptions, unmet
from nvmf.spec.memory import Access, Open, Opened, Platform, Request

if TYPE_CHECKING:
    from nvmf.engine._engine import MemoryFigures

MemoryMethod: TypeAlias = Literal["write-read", "write-flush", "write-send"]
_Operation: TypeAlias = Literal["write-read", "write-flush", "write-send", "read", "persist"]

_PERSIST = 1 << 30
"""Bytes of one request to make a range persistent."""
_WHY_LOST = (
    "the target's log has its reason: it also ends the connections of hosts that may no longer use "
    "the memory (revoked, fenced by a reservation, or by its configuration)"
)

_STATUSES = {
    1: "the range is not in what was opened",
    2: "nothing was opened",
    3: "the target's store failed to make the range persistent",
}


class RemoteMemory:
    """A range of a target's memory: see nvmf.pmem.Method.

    One event loop uses it.  Data is split into pieces of slot_bytes, of which depth are
    outstanding.  A lost connection is not repeated: its writes may or may not have happened.
    """

    def __init__(
        self, client: engine.MemoryClient, method: MemoryMethod, depth: int, opened: Opened
    ) -> None:
        self._client = client
        self._method: MemoryMethod = method
        self._size = opened.length
        self.platform = Platform(opened.platform)
        """The properties of its platform that the target reports."""
        self.read_only = False
        """Opened without the right to write."""
        self.depth = depth
        """Maximum number of outstanding operations."""
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(depth):
            self._free.put_nowait(slot)
        self._waiting: dict[int, tuple[asyncio.Future[bytes], int]] = {}
        """By slot: the future, and the bytes to return."""
        self._lost: OSError | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(client.fileno(), self._readable)

    @classmethod
    async def connect(
        cls,
        where: TransportId | str,
        nsid: int = 1,
        *,
        method: MemoryMethod = "write-send",
        force: bool = False,
        read_only: bool = False,
        hostnqn: str | None = None,
        hostid: str | None = None,
        host_traddr: str | None = None,
        device: Literal["iwarp", "roce", "system"] = "iwarp",
        depth: int = 16,
        slot_bytes: int = 65536,
        connect_timeout: float = 10.0,
        dhchap_secret: Key | str | None = None,
        dhchap_ctrl_secret: Key | str | None = None,
    ) -> Self:
        """Open a namespace as memory.

        Args:
            method: How writes become persistent.
            force: Use the method although the target does not confirm what it assumes: then writes
                are not known to be persistent.
            read_only: Ask for no right to write.
            depth: Operations outstanding, 1 to 128; the target may accept fewer.
            slot_bytes: Bytes of an operation; longer data is split.
            connect_timeout: Seconds for the connection, and again for the answer.
            dhchap_secret: This host's key, for a target that asks it to authenticate.
            dhchap_ctrl_secret: The target's key: the target must prove that it has it.

        Raises:
            ValueError: There is no such method of remote memory.
            MethodRefused: The target does not confirm an assumption of the method, or this host's
                device cannot do it.
            AuthenticationError: This host or the target could not be authenticated.
            OSError: No connection, or the target refuses: with its reason.
        """
        if method not in MEMORY_METHODS:
            raise ValueError(
                f"{method!r} is not a method of remote memory: these are "
                f"{', '.join(MEMORY_METHODS)}"
            )
        place = TransportId.of(where)
        host = host_identity(hostnqn, hostid)
        secrets = Secrets.of(dhchap_secret, dhchap_ctrl_secret)
        request = Request(depth=depth).encode()
        client = await asyncio.to_thread(
            lambda: engine.MemoryClient(
                kind=device,
                traddr=place.traddr,
                trsvcid=place.trsvcid,
                host_traddr=host_traddr,
                depth=depth,
                slot_bytes=slot_bytes,
                timeout_ms=int(connect_timeout * 1000),
                private_data=request,
            )
        )
        try:
            if method == FLUSH and not client.flushes:
                raise MethodRefused(
                    errno.EOPNOTSUPP,
                    f"{method} needs RDMA FLUSH, which the {device} device of this host does not "
                    "have: the roce device has it",
                )
            accepted = accepted_depth(client.reply, place)
            ask = Open(
                access=Access.READ if read_only else Access.READ_WRITE,
                nsid=nsid,
                hostid=host.id.bytes,
                subnqn=place.subnqn,
                hostnqn=host.nqn,
            )
            async with asyncio.timeout(connect_timeout):
                opened = await open_range(client, place, ask, secrets)
            if opened.status:
                raise refusal(opened, nsid, place)
            missing = () if force or read_only else unmet(method, Platform(opened.platform))
            if missing:
                raise MethodRefused(
                    errno.EOPNOTSUPP,
                    f"namespace {nsid} of {place.subnqn} at {place.endpoint} does not support "
                    f"{method}: the target does not confirm that {' and that '.join(missing)}",
                )
            client.opened(opened.address, opened.key, opened.length, opened.platform)
        except TimeoutError:
            client.close()
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"cannot open namespace {nsid} of {place.subnqn} as memory: {place.endpoint} has "
                f"not answered within {connect_timeout:g} s",
            ) from None
        except BaseException:
            client.close()
            raise
        made = cls(client, method, min(depth, accepted), opened)
        made.read_only = read_only
        return made

    @property
    def name(self) -> str:
        """The method."""
        return self._method

    @property
    def flushes(self) -> bool:
        """Whether this host's device has FLUSH, which write-flush needs."""
        return self._client.flushes

    @property
    def size(self) -> int:
        """Bytes of the range."""
        return self._size

    @property
    def assumes(self) -> tuple[str, ...]:
        """Return the assumptions of the method about the target's platform."""
        return assumptions(self._method)

    @property
    def unmet(self) -> tuple[str, ...]:
        """Assumptions that the target does not confirm; not empty only if it was forced."""
        return unmet(self._method, self.platform)

    async def write(self, offset: int, data: Buffer) -> None:
        """Write bytes; when this returns they are persistent, as far as `assumes` holds."""
        if self.read_only:
            raise PermissionError(
                errno.EACCES, "the memory was opened for reading only: it cannot be written"
            )
        with memoryview(data) as given, given.cast("B") as view:
            self._check(offset, len(view))
            size = self._client.slot_bytes
            pieces = range(0, len(view), size)
            if len(pieces) <= 1:
                if len(view):
                    await self._write(offset, view)
                return
            await all_of(
                [self._write(offset + at, view[at : at + size]) for at in pieces],
            )

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the range."""
        self._check(offset, length)
        size = self._client.slot_bytes
        parts = await all_of(
            [
                self._run("read", offset + at, min(size, length - at))
                for at in range(0, length, size)
            ]
        )
        return b"".join(parts)

    async def persist(self) -> None:
        """Have the target's processor make persistent all that has reached the range.

        That includes writes of earlier connections, whose method may not have been completed.
        """
        pieces = range(0, self._size, _PERSIST)
        await all_of([self._run("persist", at, min(_PERSIST, self._size - at)) for at in pieces])

    async def bench(
        self,
        method: str,
        *,
        size: int,
        depth: int,
        seconds: float,
        percentiles: tuple[float, ...],
        read_percent: int = 0,
        also: Sequence[RemoteMemory] = (),
        sleeps: bool = False,
    ) -> MemoryFigures:
        """Write at random places with a method, or "floor", and read, for a time.

        Nothing else may run. also: each operation is done on these at the same time, and ends when
        all have answered. sleeps: not to poll all the time, where processors are few.
        """
        every = (self, *also)
        if any(one._waiting for one in every):
            raise ValueError("operations are in progress")
        for one in every:
            self._loop.remove_reader(one._client.fileno())
        task = asyncio.ensure_future(
            asyncio.to_thread(
                lambda: self._client.bench(
                    method=method,
                    size=size,
                    depth=depth,
                    seconds=seconds,
                    percentiles=percentiles,
                    read_percent=read_percent,
                    also=[one._client for one in also],
                    sleeps=sleeps,
                )
            )
        )
        try:
            found = await asyncio.shield(task)
        except asyncio.CancelledError:
            engine.memory_bench_cancel()
            await asyncio.wait([task])
            raise
        finally:
            for one in every:
                one._listen()
        return found

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._client.fileno(), self._readable)
            self._poll()

    async def close(self) -> None:
        """End the connection; operations in progress fail."""
        if self._closed:
            return
        self._closed = True
        self._fail(OSError(errno.ECANCELED, "the memory connection was closed"))
        await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise ValueError(
                f"bytes {offset} to {offset + length} are not in a range of {self._size} bytes"
            )

    async def _write(self, offset: int, view: memoryview) -> None:
        await self._run(self._method, offset, len(view), view)

    async def _run(
        self,
        method: _Operation,
        offset: int,
        length: int,
        data: memoryview | None = None,
    ) -> bytes:
        if self._lost is not None:
            raise _again(self._lost)
        slot = await self._free.get()
        self._check_lost(slot)
        future: asyncio.Future[bytes] = self._loop.create_future()
        try:
            if data is not None:
                self._client.fill(slot, data)
            self._client.begin(slot, method, offset, length)
        except OSError as error:
            self._free.put_nowait(slot)
            self._fail(error)
            raise
        self._waiting[slot] = future, length if method == "read" else 0
        self._poll()
        return await future

    def _check_lost(self, slot: int) -> None:
        if self._lost is not None:
            self._free.put_nowait(slot)  # for the next waiting operation
            raise _again(self._lost)

    # ---- completions ----

    def _readable(self) -> None:
        with suppress(OSError):
            self._client.drain()
        self._poll()

    def _poll(self) -> None:
        """Take what has completed; the descriptor becomes readable with the next completion."""
        try:
            while self._take():
                pass
            self._client.arm()
            while self._take():
                pass
        except OSError as error:
            self._fail(error)

    def _take(self) -> bool:
        done = self._client.poll()
        for slot, status in done:
            future, length = self._waiting.pop(slot)
            if future.done():  # its caller was cancelled
                pass
            elif status:
                why = _STATUSES.get(status, f"status {status}")
                future.set_exception(OSError(errno.EIO, f"{self._method} failed: {why}"))
            else:
                future.set_result(self._client.content(slot, length) if length else b"")
            self._free.put_nowait(slot)
        return bool(done)

    def _fail(self, error: OSError) -> None:
        if self._lost is not None:
            return
        if error.errno == errno.ENOTCONN:
            error = OSError(error.errno, f"{error.strerror or error}; {_WHY_LOST}")
        self._lost = error
        self._loop.remove_reader(self._client.fileno())
        for slot, (future, _) in self._waiting.items():
            if not future.done():
                future.set_exception(_again(error))
            self._free.put_nowait(slot)
        self._waiting.clear()


def _again(error: OSError) -> OSError:
    """Return a copy: each caller has a traceback of its own."""
    return OSError(error.errno, error.strerror)
