# SPDX-License-Identifier: BSD-3-Clause
"""Long transfers in pieces, waiting for buffers, queues with more commands than entries."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any

import pytest

from nvmf.engine import EngineError, HostDevice
from nvmf.initiator import NvmeError
from nvmf.initiator.base.errors import ConnectionLost, QueueLost
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.pieces import Piece, groups, pipeline, split
from nvmf.initiator.client.buffers import SIZES, BufferPool
from nvmf.initiator.client.queue import Queue
from support.pystores import Memory, served


def test_split() -> None:
    assert list(split(5, 7, 3, 512)) == [Piece(5, 3, 0), Piece(8, 3, 1536), Piece(11, 1, 3072)]
    assert list(split(5, 0, 3, 512)) == []


def test_groups() -> None:
    assert list(groups(range(5), 2)) == [[0, 1], [2, 3], [4]]


async def settle() -> None:
    """Let all callbacks run that do not wait for a time."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_pipeline_width_and_order() -> None:
    running, most, seen = 0, 0, []

    async def step(piece: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        seen.append(piece)

    await pipeline(range(20), step, 4)
    assert sorted(seen) == list(range(20))
    assert most == 4


async def test_pipeline_first_failure() -> None:
    """No piece is begun after a failure, which is raised when those that were begun have ended."""
    begun: list[int] = []
    ended: list[int] = []
    go_on = asyncio.Event()

    async def step(piece: int) -> None:
        begun.append(piece)
        await (asyncio.sleep(0) if piece == 1 else go_on.wait())
        ended.append(piece)
        if piece < 2:
            raise RuntimeError(piece)

    whole = asyncio.create_task(pipeline(range(100), step, 3))
    await settle()
    assert (sorted(begun), ended, whole.done()) == ([0, 1, 2], [1], False)
    go_on.set()
    with pytest.raises(RuntimeError, match="1"):
        await whole
    assert (sorted(begun), sorted(ended)) == ([0, 1, 2], [0, 1, 2])


@pytest.mark.parametrize("failed", [False, True])
async def test_pipeline_cancelled(failed: bool) -> None:
    """A cancelled caller gets CancelledError, even if a piece has failed before."""
    ended: list[int] = []

    async def step(piece: int) -> None:
        try:
            await (asyncio.sleep(0) if piece == 1 and failed else asyncio.Event().wait())
            raise RuntimeError(piece)
        finally:
            ended.append(piece)

    whole = asyncio.create_task(pipeline(range(100), step, 3))
    await settle()
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert sorted(ended) == [0, 1, 2]


class HalfBroken(Memory):
    """A store without room for its first LARGEST bytes, and whose other writes wait for go_on."""

    def __init__(self) -> None:
        super().__init__()
        self.failed, self.waiting, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write(self, offset: int, data: bytes) -> None:
        if offset < LARGEST:
            self.failed.set()
            raise OSError(errno.ENOSPC, "full")
        self.waiting.set()
        await self.go_on.wait()
        await super().write(offset, data)


async def test_a_failed_write_has_ended() -> None:
    """After a write in pieces has failed, no piece of it replaces the data of a later write."""
    store = HalfBroken()
    async with served(store) as (_, controller):
        disk = controller.namespace(1)
        failing = asyncio.create_task(disk.write(0, b"A" * (1 << 20)))
        await store.failed.wait()
        await store.waiting.wait()
        done, _ = await asyncio.wait([failing], timeout=0.5)
        assert not done, "pieces are in flight"
        store.go_on.set()
        with pytest.raises(NvmeError):
            await failing
        last = (1 << 20) // disk.block_size - 1
        await disk.write(last, b"B" * disk.block_size)
        await disk.flush()
        assert await disk.read(last, 1) == b"B" * disk.block_size


async def test_pool_waits_in_line() -> None:
    pool = BufferPool(HostDevice("iwarp"))
    size, count = SIZES[-1]
    slots = [await pool.take(size) for _ in range(count)]
    assert len({slot.offset for slot in slots}) == count
    turns = [asyncio.create_task(pool.take(size)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in turns)
    assert pool.waited == 3
    turns[1].cancel()
    slots[0].drop()
    slots[1].drop()
    first, third = await turns[0], await turns[2]
    assert {first.offset, third.offset} == {slots[0].offset, slots[1].offset}
    with pytest.raises(ValueError, match="largest buffer"):
        await pool.take(size + 1)
    late = asyncio.create_task(pool.take(size))
    await asyncio.sleep(0)
    pool.close()
    for waiting in (late, pool.take(1)):
        with pytest.raises(ConnectionLost, match="closed"):
            await waiting


async def test_slot_in_flight_is_not_given_away() -> None:
    pool = BufferPool(HostDevice("iwarp"))
    with await pool.take(1) as slot:
        slot.hold()  # a command
    assert (await pool.take(1)) is not slot
    slot.drop()
    assert (await pool.take(1)) is slot
    pool.close()


class FakeHost:
    """A queue of the engine with room for a number of commands."""

    def __init__(self, size: int, room: int | None = None) -> None:
        self.size, self.room, self.qid = size, size if room is None else room, 1
        self.users: list[object] = []
        self.done: list[tuple[object, int, int, int]] = []
        self.down = ""
        self.closed = False
        self.most = 0
        self._read, self._write = os.pipe()

    @property
    def reason(self) -> str:
        return self.down

    def fileno(self) -> int:
        return self._read

    def submit(self, sqe: bytes, user: object, *data: Any) -> int:
        if self.down:
            raise EngineError(errno.ENOTCONN, "lost")
        if len(self.users) >= self.room:
            raise BlockingIOError
        self.users.append(user)
        self.most = max(self.most, len(self.users))
        return 0

    def finish(self, count: int = 1, status: int = 0) -> None:
        for _ in range(count):
            self.done.append((self.users.pop(0), status, 0, 0))
        os.write(self._write, b"x")

    def drain(self) -> None:
        os.read(self._read, 64)

    def arm(self) -> None:
        pass

    def poll(self) -> list[tuple[object, int, int, int]]:
        if self.down:
            raise EngineError(errno.ENOTCONN, "lost")
        done, self.done = self.done, []
        return done

    def lose(self, reason: str) -> None:
        self.down = reason
        os.write(self._write, b"x")

    def stop_spread(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        os.close(self._read)
        os.close(self._write)


def lost(into: list[tuple[str, bool]]) -> Any:
    return lambda queue, reason, timed_out: into.append((reason, timed_out))


@pytest.mark.parametrize("room", [4, 3])
async def test_queue_line(room: int) -> None:
    """Commands beyond the room wait in line, in order, even if the engine has less room."""
    host = FakeHost(4, room)
    queue = Queue(host, lost([]))  # type: ignore[arg-type]
    order: list[int] = []

    async def run(number: int) -> None:
        await queue.execute(b"", within=None, what="Read")
        order.append(number)

    tasks = [asyncio.create_task(run(number)) for number in range(10)]
    await settle()
    assert len(host.users) == room
    tasks[7].cancel()
    while not all(task.done() for task in tasks):
        if host.users:
            host.finish()
        await asyncio.sleep(0.001)
    assert sorted(order) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert host.most == room
    assert queue.outstanding == 0
    await queue.close()


async def test_queue_lost() -> None:
    """Commands in flight and in line fail, when the queue is closed and not before."""
    host = FakeHost(2)
    seen: list[tuple[str, bool]] = []
    queue = Queue(host, lost(seen))  # type: ignore[arg-type]
    tasks = [asyncio.create_task(queue.execute(b"", within=600, what="Read")) for _ in range(4)]
    await settle()
    host.lose("the peer closed the connection")
    await settle()
    assert seen == [("the peer closed the connection", False)]
    assert not any(task.done() for task in tasks)
    with pytest.raises(QueueLost):
        await queue.execute(b"", within=600, what="Read")
    await queue.close()
    assert host.closed
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, QueueLost)
        assert str(result) == "the peer closed the connection"


class FakeBatch:
    """A batch whose commands the engine cannot submit."""

    depth = 4
    answered = 0

    def __init__(self, error: int) -> None:
        self.error = error


@pytest.mark.parametrize(
    ("error", "raised", "lost_reason"),
    [(errno.ENOTCONN, QueueLost, "the peer has gone"), (errno.ENOMEM, EngineError, None)],
)
async def test_batch_that_cannot_be_submitted(
    error: int, raised: type[Exception], lost_reason: str | None
) -> None:
    """A loss that the engine notices first is a loss, and the queue is marked as lost at once."""
    host = FakeHost(8)
    queue = Queue(host, lost([]))  # type: ignore[arg-type]

    def submit_batch(batch: FakeBatch, user: object, at_once: int) -> None:
        host.done.append((user, 0, 0, 0))

    host.submit_batch = submit_batch  # type: ignore[attr-defined]
    task = asyncio.create_task(
        queue.execute_batch(FakeBatch(error), within=600, what="Read")  # type: ignore[arg-type]
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if lost_reason is not None:
        host.down = lost_reason
    with pytest.raises(raised):
        await task
    assert queue.lost == lost_reason
    await queue.close()


async def test_queue_timeout() -> None:
    host = FakeHost(2)
    seen: list[tuple[str, bool]] = []
    queue = Queue(host, lost(seen))  # type: ignore[arg-type]
    slow = asyncio.create_task(queue.execute(b"", within=None, what="AER"))
    late = asyncio.create_task(queue.execute(b"", within=0.05, what="Read"))
    while not seen:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert seen == [("the controller did not answer Read within 0.05 s", True)]
    await queue.close()
    await asyncio.gather(slow, late, return_exceptions=True)


async def test_cancelled_command_keeps_its_place() -> None:
    """A command whose caller was cancelled is in flight until it completes, and so is its slot."""
    host = FakeHost(1)
    queue = Queue(host, lost([]))  # type: ignore[arg-type]
    first = asyncio.create_task(queue.execute(b"", within=600, what="Read"))
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(queue.execute(b"", within=600, what="Read"))
    await settle()
    assert len(host.users) == 1
    host.finish()
    await settle()
    assert len(host.users) == 1
    host.finish(status=0x4002)
    assert (await second).status == 0x4002
    await queue.close()
