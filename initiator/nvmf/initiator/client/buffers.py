# SPDX-License-Identifier: BSD-3-Clause
"""Registered buffers for data whose caller has none: bounded, and whoever finds none waits in line.

Three sizes, each an arena of the engine's memory that is registered when it is first needed.  Owned
by one controller, on its event loop's thread.  A slot is given back when nobody holds it: the
operation that took it, and every command in flight that moves data to or from it, so that an
operation that was cancelled leaves no buffer for a late transfer to write into.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from nvmf.engine import HostDevice, HostMemory
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.limits import LARGEST

SIZES = ((4096, 256), (32768, 64), (LARGEST, 16))
"""Bytes of a slot, and how many there are of that size: 7 MiB in all."""
CLOSED = "the controller was closed"


class Slot:
    """A piece of registered memory; give it back with drop()."""

    __slots__ = ("_arena", "_holds", "memory", "offset", "view")

    def __init__(self, arena: Arena, memory: HostMemory, offset: int, view: memoryview) -> None:
        self._arena = arena
        self._holds = 0
        self.memory = memory
        self.offset = offset
        self.view = view

    def hold(self) -> None:
        """One more user."""
        self._holds += 1

    def drop(self) -> None:
        """One user fewer; the last one gives it to who waits."""
        self._holds -= 1
        if self._holds == 0:
            self._arena.give(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.drop()


class Arena:
    """Slots of one size."""

    def __init__(self, device: HostDevice, size: int, count: int) -> None:
        self._device = device
        self._size, self._count = size, count
        self._memory: HostMemory | None = None
        self._views: list[memoryview] = []
        self._free: deque[Slot] = deque()
        self._line: deque[asyncio.Future[Slot]] = deque()
        self.waited = 0

    def _open(self) -> None:
        self._memory = memory = self._device.alloc(self._size * self._count)
        whole = memoryview(memory)
        for offset in range(0, self._size * self._count, self._size):
            view = whole[offset : offset + self._size]
            self._views.append(view)
            self._free.append(Slot(self, memory, offset, view))
        whole.release()

    async def take(self) -> Slot:
        """A slot, held once; waits in line where all are in use."""
        if self._memory is None:
            self._open()
        if self._free and not self._line:
            slot = self._free.pop()
            slot.hold()
            return slot
        self.waited += 1
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                turn.result().drop()
            raise

    def give(self, slot: Slot) -> None:
        """Nobody holds the slot: to the first in line, or back."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                slot.hold()
                turn.set_result(slot)
                return
        self._free.append(slot)

    def close(self) -> None:
        """Unregister; nothing may be in flight."""
        for view in self._views:
            view.release()
        self._views.clear()
        self._free.clear()
        for turn in self._line:
            if not turn.done():
                turn.set_exception(ConnectionLost(CLOSED))
        self._line.clear()
        if self._memory is not None:
            self._memory.close()
            self._memory = None


class BufferPool:
    """The arenas of a controller."""

    def __init__(self, device: HostDevice) -> None:
        self.device = device
        self._arenas = [Arena(device, size, count) for size, count in SIZES]
        self._closed = False

    async def take(self, size: int) -> Slot:
        """A slot of at least size bytes (at most LARGEST); ConnectionLost once it is closed."""
        if self._closed:
            raise ConnectionLost(CLOSED)
        for (limit, _), arena in zip(SIZES, self._arenas, strict=True):
            if size <= limit:
                return await arena.take()
        raise ValueError(f"the largest buffer of the pool has {LARGEST} bytes, not {size}")

    @property
    def waited(self) -> int:
        """How often somebody had to wait in line."""
        return sum(arena.waited for arena in self._arenas)

    def close(self) -> None:
        """Unregister all; nothing may be in flight."""
        self._closed = True
        for arena in self._arenas:
            arena.close()
