# SPDX-License-Identifier: BSD-3-Clause
"""State shared by the directions of a relay's connections: active faults, order, delays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

from nvmf.relay.fault import ActiveFault, Fate, Way, fate_of
from nvmf.relay.owner import Owner

_BUFFERED = 16 << 20
"""Bytes of delayed frames of a direction after which it is no longer read."""
_BEHIND = 0.01
"""Seconds that a frame waits for the one that it is swapped with."""


class Path(Protocol):
    """A connection, or a host of RoCEv2."""

    @property
    def owner(self) -> Owner | None:
        """The owner of the connection; None for a host."""

    def cut(self) -> None:
        """End it at once, at both ends."""

    def half_open(self) -> None:
        """End it at the target's side only."""


class Wire:
    """The active faults, and other state that the directions of all connections share."""

    def __init__(self) -> None:
        self.faults: dict[int, ActiveFault] = {}
        self.paths: set[Path] = set()
        self.changed = asyncio.Event()
        """Set, and replaced, at each begin and end of a fault."""

    def fate(self, frame: bytes, way: Way, owner: Owner) -> Fate:
        """Return the effects of the active faults on a frame."""
        now = asyncio.get_running_loop().time()
        return fate_of(frame, list(self.faults.values()), way, now, owner)

    async def flows(self, way: Way, owner: Owner) -> None:
        """Wait while the frames of a direction stall."""
        while any(one.stalls(way, owner) for one in self.faults.values()):
            await self.changed.wait()

    def begin(self, number: int, fault: ActiveFault) -> None:
        """Start a fault."""
        self.faults[number] = fault
        if fault.config.effect == "half-open":
            for path in list(self.paths):
                if path.owner is not None and fault.takes(path.owner):
                    path.half_open()
                    fault.hit()
        self._tell()

    def end(self, number: int) -> None:
        """End a fault."""
        self.faults.pop(number, None)
        self._tell()

    def blackhole(self, owner: Owner) -> bool:
        """Whether a packet without a connection is lost, in either direction."""
        for one in self.faults.values():
            if one.config.effect == "half-open" and one.takes(owner):
                one.hit()
                return True
        return False

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Direction:
    """Frames of one direction of a path: their order, their delays, and their sender task."""

    def __init__(
        self, wire: Wire, way: Way, path: Path, send: Callable[[bytes], Coroutine[None, None, None]]
    ) -> None:
        self._wire = wire
        self._way = way
        self._path = path
        self._send = send
        self._queue: asyncio.Queue[tuple[float, bytes, Owner]] = asyncio.Queue()
        self._held: list[bytes] = []
        self._holder = Owner()
        """The owner of the frames."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    async def take(self, frame: bytes, owner: Owner, *, faulty: bool = True) -> None:
        """Take a frame; wait if too many are in transit."""
        for one in self._wire.faults.values():
            if one.stalls(self._way, owner):
                one.hit()
        await self._wire.flows(self._way, owner)
        fate = self._wire.fate(frame, self._way, owner) if faulty else Fate([frame])
        if fate.cut:
            self._path.cut()
            return
        if fate.behind and not self._held:
            self._held, self._holder = fate.copies, owner
            self._timer = asyncio.get_running_loop().call_later(_BEHIND, self._release)
            return
        self._put(fate.copies, owner, fate.delay)
        self._release()
        await self._room.wait()

    def _put(self, frames: list[bytes], owner: Owner, delay: float = 0.0) -> None:
        self._due = max(self._due, asyncio.get_running_loop().time() + delay)
        for frame in frames:
            self._bytes += len(frame)
            self._queue.put_nowait((self._due, frame, owner))
        if self._bytes > _BUFFERED:
            self._room.clear()

    def _release(self) -> None:
        held, self._held = self._held, []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._put(held, self._holder)

    async def drain(self) -> None:
        """Send all frames in transit, to the last one."""
        self._release()
        await self._queue.join()

    async def run(self) -> None:
        """Send frames when they are due; ends when it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, frame, owner = await self._queue.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._wire.flows(self._way, owner)
            await self._send(frame)
            self._bytes -= len(frame)
            if self._bytes <= _BUFFERED:
                self._room.set()
            self._queue.task_done()
