# SPDX-License-Identifier: BSD-3-Clause
"""A bounded pool of registered buffers, for callers that have none; they wait in line for one.

Three sizes, each an arena of the engine's memory that is registered when it is first needed. Owned
by one controller, on its event loop's thread. A slot is held by the operation that took it, and by
every command in flight that moves data to or from it; it is returned when the last of these has
ended. So a late transfer of a cancelled operation never writes into a buffer that is in use again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from nvmf.engine import HostDevice, HostMemory
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.limits import LARGEST

SIZES = ((4096, 256), (32768, 64), (LARGEST, 16))
"""Bytes of a slot, and the number of slots of that size: 7 MiB in all."""
ADMIN_SIZES = ((4096, 32), (LARGEST, 2))
"""The same for admin commands: one Identify for each entry of the admin queue."""
CLOSED = "the controller was closed"


class Slot:
    """A piece of registered memory; return it with drop()."""

    __slots__ = ("_arena", "_holds", "memory", "offset", "view")

    def __init__(self, arena: Arena, memory: HostMemory, offset: int, view: memoryview) -> None:
        self._arena = arena
        self._holds = 0
        self.memory = memory
        self.offset = offset
        self.view = view

    def hold(self) -> None:
        """Add a user."""
        self._holds += 1

    def drop(self) -> None:
        """Remove a user; after the last one, the slot is given to the next caller in line."""
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

    def take_now(self) -> Slot | None:
        """Return a slot, held once; None if all are in use, or others wait in line."""
        if self._free and not self._line:
            slot = self._free.pop()
            slot.hold()
            return slot
        return None

    async def take(self) -> Slot:
        """Return a slot, held once; wait in line if all are in use."""
        if self._memory is None:
            self._open()
        if slot := self.take_now():
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
        """Give a slot without users to the first caller in line, or return it to the arena."""
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


class Arenas:
    """Arenas of several sizes.  sizes: as SIZES, ascending."""

    def __init__(self, device: HostDevice, sizes: Sequence[tuple[int, int]]) -> None:
        self._arenas = [(size, Arena(device, size, count)) for size, count in sizes]
        self._now = [(size, arena.take_now) for size, arena in self._arenas]
        self._closed = False

    def take_now(self, size: int) -> Slot | None:
        """Return a slot of at least size bytes, if take() would not have to wait."""
        for limit, take in self._now:
            if size <= limit:
                return take()
        return None

    async def take(self, size: int) -> Slot:
        """Return a slot of at least size bytes, at most LARGEST; raise ConnectionLost if closed."""
        if self._closed:
            raise ConnectionLost(CLOSED)
        for limit, arena in self._arenas:
            if size <= limit:
                return await arena.take()
        raise ValueError(f"the largest buffer of the pool has {LARGEST} bytes, not {size}")

    @property
    def waited(self) -> int:
        """How often a caller had to wait in line."""
        return sum(arena.waited for _, arena in self._arenas)

    def close(self) -> None:
        """Unregister all; nothing may be in flight."""
        self._closed = True
        for _, arena in self._arenas:
            arena.close()


class BufferPool(Arenas):
    """The buffers of a controller."""

    def __init__(self, device: HostDevice) -> None:
        super().__init__(device, SIZES)
        self.device = device
        self.admin = Arenas(device, ADMIN_SIZES)
        """For Connect and admin commands: I/O that waits for a reconnect keeps its slots, and the
        reconnect must not wait for them."""

    def close(self) -> None:
        """Unregister all; nothing may be in flight."""
        super().close()
        self.admin.close()
