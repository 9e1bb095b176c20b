# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory of a target: the methods write-read, write-flush and write-send, for asyncio.

write-flush-tail is write-flush with append(), which writes a log's tail word behind the data.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from typing_extensions import Buffer

from nvmf import engine
from nvmf.auth import Key
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.options import DeviceKind
from nvmf.pmem.gathering import all_of
from nvmf.pmem.opening import Secrets, accepted_depth, open_range, refusal
from nvmf.pmem.path import Path
from nvmf.pmem.platform import (
    FLUSH,
    FLUSH_METHODS,
    MEMORY_METHODS,
    TAIL,
    MethodRefused,
    assumptions,
    unmet,
)
from nvmf.spec.memory import Access, Open, Opened, Platform, Request

if TYPE_CHECKING:
    from nvmf.engine._engine import MemoryFigures

MemoryMethod: TypeAlias = Literal["write-read", "write-flush", "write-flush-tail", "write-send"]

_WORD = 8
"""Bytes of a tail word."""
_PERSIST = 1 << 30
"""Bytes of one request to make a range persistent."""


def _device(kind: DeviceKind) -> Literal["iwarp", "roce", "system"]:
    """Return the device of an option, whose default is that of NVMe queues."""
    return "iwarp" if kind == "auto" else kind


class RemoteMemory(Path):
    """A range of a target's memory: see nvmf.pmem.Method.

    One event loop uses it.  Data is split into pieces of slot_bytes, of which depth are
    outstanding.  A lost connection is not repeated: its writes may or may not have happened.
    """

    def __init__(
        self, client: engine.MemoryClient, method: MemoryMethod, depth: int, opened: Opened
    ) -> None:
        super().__init__(client, depth)
        self._method: MemoryMethod = method
        self._size = opened.length
        self.platform = Platform(opened.platform)
        """The properties of its platform that the target reports."""
        self.read_only = False
        """Opened without the right to write."""
        self._appends = asyncio.Lock()
        """Held while an append is sent: they are sent in order."""
        self._gap = False
        """An append was not sent as a whole: the word of a later one would cover it."""

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
        device: Literal["iwarp", "roce", "system"] | None = None,
        depth: int = 16,
        slot_bytes: int = 65536,
        connect_timeout: float | None = None,
        dhchap_secret: Key | str | None = None,
        dhchap_ctrl_secret: Key | str | None = None,
    ) -> Self:
        """Open a namespace as memory.

        hostnqn, hostid, host_traddr, device, connect_timeout and the files of keys may also be
        options of the URL, over which arguments take precedence; its other options are of queues.

        Args:
            method: How writes become persistent.
            force: Use the method although the target does not confirm what it assumes: then writes
                are not known to be persistent.
            read_only: Ask for no right to write.
            depth: Operations outstanding, 1 to 128; the target may accept fewer.
            slot_bytes: Bytes of an operation; longer data is split.
            device: The RDMA device (default: iwarp).
            connect_timeout: Seconds for the connection, and again for the answer (default: 10).
            dhchap_secret: This host's key, for a target that asks it to authenticate.
            dhchap_ctrl_secret: The target's key: the target must prove that it has it.

        Raises:
            ValueError: There is no such method of remote memory, or a key cannot be read.
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
        options = ConnectOptions().with_options(place.options)
        host = host_identity(hostnqn or options.hostnqn, hostid or options.hostid)
        keys = options.keys()
        secrets = Secrets.of(dhchap_secret or keys[0], dhchap_ctrl_secret or keys[1])
        kind = device or _device(options.device)
        seconds = options.connect_timeout if connect_timeout is None else connect_timeout
        request = Request(depth=depth).encode()
        client = await asyncio.to_thread(
            lambda: engine.MemoryClient(
                kind=kind,
                traddr=place.traddr,
                trsvcid=place.trsvcid,
                host_traddr=host_traddr or options.host_traddr,
                depth=depth,
                slot_bytes=slot_bytes,
                timeout_ms=int(seconds * 1000),
                private_data=request,
            )
        )
        try:
            if method in FLUSH_METHODS and not client.flushes:
                raise MethodRefused(
                    errno.EOPNOTSUPP,
                    f"{method} needs RDMA FLUSH, which the {kind} device of this host does not "
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
            async with asyncio.timeout(seconds):
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
                f"not answered within {seconds:g} s",
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
        self._writable()
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

    @property
    def tails(self) -> bool:
        """Whether append() is possible: the method is write-flush-tail, and the target confirms
        ATOMIC WRITE.  If the method was forced, the latter may not be so.
        """
        return self._method == TAIL and Platform.ATOMIC in self.platform

    async def append(self, offset: int, data: Buffer, at: int, word: bytes) -> None:
        """Write bytes persistently, and a word behind them, in one round trip.

        The word is 8 bytes, written as a whole, at a multiple of 8.  It is written only when the
        bytes, and those of all appends that were begun before, are persistent; it is persistent
        when this returns.  Appends are sent in the order in which they are begun, each as one chain
        of requests: RDMA WRITE, FLUSH, ATOMIC WRITE of the word, FLUSH.

        Raises:
            ValueError: The bytes or the word are not in the range, or there are none.
            MethodRefused: append() is not possible: see tails.
            OSError: The append failed, or an earlier one was given up before it was sent.
        """
        if not self.tails:
            raise MethodRefused(
                errno.EOPNOTSUPP,
                f"cannot append: {TAIL} with a target that confirms ATOMIC WRITE is needed",
            )
        self._writable()
        if len(word) != _WORD or at % _WORD:
            raise ValueError(f"a word has {_WORD} bytes, at a multiple of that")
        self._check(at, _WORD)
        with memoryview(data) as given, given.cast("B") as view:
            self._check(offset, len(view))
            if not len(view):
                raise ValueError("there is nothing to append")
            async with self._appends:
                sent = await self._send_append(offset, view, at, word)
        if len(sent) == 1:
            await sent[0]
        else:
            await all_of(sent)

    async def _send_append(
        self, offset: int, view: memoryview, at: int, word: bytes
    ) -> list[asyncio.Future[bytes]]:
        """Send the pieces of an append, the last one with the word."""
        if self._gap:
            raise OSError(errno.ECANCELED, "an earlier append was given up; connect again")
        size = self._client.slot_bytes
        sent: list[asyncio.Future[bytes]] = []
        self._gap = True
        try:
            for start in range(0, len(view), size):
                piece = view[start : start + size]
                slot = await self._slot()
                last = start + size >= len(view)
                if last:
                    self._client.tail_at(at)
                sent.append(
                    self._post(
                        slot,
                        TAIL if last else FLUSH,
                        offset + start,
                        len(piece),
                        piece,
                        word if last else b"",
                    )
                )
            self._gap = False
        finally:
            if self._gap:
                for future in sent:
                    if not future.cancel() and not future.cancelled():
                        future.exception()  # nobody else takes it
        return sent

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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _writable(self) -> None:
        if self.read_only:
            raise PermissionError(
                errno.EACCES, "the memory was opened for reading only: it cannot be written"
            )

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise ValueError(
                f"bytes {offset} to {offset + length} are not in a range of {self._size} bytes"
            )

    async def _write(self, offset: int, view: memoryview) -> None:
        await self._run(FLUSH if self._method == TAIL else self._method, offset, len(view), view)
