# SPDX-License-Identifier: BSD-3-Clause
"""A queue of the engine on an asyncio loop: commands in, completions out.

Owned by the loop's thread; connecting and closing, which block, run on other threads. The queue's
completion channel is armed whenever the loop may sleep, so an idle queue costs nothing and no
wake-up is lost: drain the channel, poll to the end, arm, and poll once more. A lost queue fails its
commands only after it is closed, when nothing can write into their buffers.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence

from nvmf.engine import EngineError, HostBatch, HostQueue
from nvmf.initiator.base.background import finished
from nvmf.initiator.base.errors import QueueLost
from nvmf.initiator.base.threads import ended_on_thread
from nvmf.initiator.client.request import Answer, BatchRequest, Completion, Data, Request, refuse

_NEVER = float("inf")
_SPARE = 2
"""Entries of a queue that a batch leaves to others."""


class Queue:
    """One connected queue.  on_lost(queue, reason, timed_out) is called once if it is lost."""

    def __init__(self, host: HostQueue, on_lost: Callable[[Queue, str, bool], None]) -> None:
        self._host = host
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._free = host.room
        self._line: deque[asyncio.Future[None]] = deque()
        self._requests: dict[Request, None] = {}
        self._progress: asyncio.Future[None] | None = None
        self._pairing = asyncio.Lock()
        self._half: asyncio.Future[None] | None = None
        """Done when the second command of a pair was submitted; None between pairs."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER
        """When the timer expires."""
        self._closing: asyncio.Task[None] | None = None
        self.on_closed: Callable[[], None] | None = None
        """Called when nothing can use the memory of its commands."""
        self.lost: str | None = None
        """The reason, if it can no longer be used."""
        self.completed = 0  # commands
        self.reserved = False  # an entry, for Keep Alive
        self._loop.add_reader(host.fileno(), self._on_readable)
        self._reap()

    @property
    def qid(self) -> int:
        """0 is the admin queue."""
        return self._host.qid

    @property
    def outstanding(self) -> int:
        """Commands in flight and waiting."""
        return len(self._requests) + len(self._line)

    async def execute(
        self, sqe: bytes, data: Data | None = None, *, within: float | None, what: str
    ) -> Completion:
        """Submit a command and wait for its completion; within: seconds, None forever.

        Waits in line while the queue is full.  Raises QueueLost if the connection ends, or if the
        command takes too long, which ends the connection.  If the caller is cancelled, the
        command continues, and holds its buffer until it is complete.
        """
        sent = self.execute_now(sqe, data, within=within, what=what)
        if sent is not None:
            return await sent
        await self._take_turn()
        return await (await self._start(sqe, data, within, what))

    def execute_now(
        self, sqe: bytes, data: Data | None, *, within: float | None, what: str
    ) -> asyncio.Future[Completion] | None:
        """As begin(), and return the future of its completion, or None."""
        future: asyncio.Future[Completion] = self._loop.create_future()
        return future if self.begin(sqe, data, future, within=within, what=what) else None

    def begin(
        self, sqe: bytes, data: Data | None, answer: Answer, *, within: float | None, what: str
    ) -> bool:
        """Submit a command; False, and nothing has changed, if it has to wait as execute() does."""
        if self.lost is not None or self._line or not self._free or self._half is not None:
            return False
        deadline = _NEVER
        if within is not None:
            deadline = self._loop.time() + within
            if self._timer is None or deadline < self._due:
                self._watch(deadline)
        slot = None if data is None else data.slot
        request = Request(answer, slot, deadline, within, what)
        try:
            self._send(sqe, request, data)
        except (BlockingIOError, EngineError):
            return False
        self._free -= 1
        self._requests[request] = None
        if slot is not None:
            slot.hold()
        return True

    async def connect(self, sqe: bytes, data: Data, *, within: float) -> Completion:
        """Execute a Connect, which a target may miss (HostQueue.nudge)."""
        answer = asyncio.create_task(self.execute(sqe, data, within=within, what="Connect"))
        try:
            while self.lost is None and not answer.done() and (pause := self._host.nudge()):
                await asyncio.wait([answer], timeout=pause)
            return await answer
        finally:
            answer.cancel()

    async def execute_pair(
        self, pair: Sequence[tuple[bytes, Data]], *, within: float | None, what: str
    ) -> list[Completion]:
        """Submit two fused commands with no other command between them; otherwise as execute()."""
        if self._host.room < 2:
            raise ValueError(f"{what} needs a queue for two commands")
        async with self._pairing:  # or each of many pairs waits for its second turn forever
            await self._take_turn()
            try:
                await self._take_turn()
            except BaseException:
                self._pass_turn()
                raise
            (first, one), (second, other) = pair
            if self.lost is None:
                self._host.pause_batches(True)  # no command of a batch comes between the two
            try:
                compared = await self._start(first, one, within, what)
            except BaseException:
                self._pass_turn()
                self._go_on()
                raise
            half = self._half = self._loop.create_future()
            try:
                written = await self._start(second, other, within, what, behind=half)
            except BaseException:
                compared.cancel()
                raise
            finally:
                self._half = None
                half.set_result(None)
                self._go_on()
        return list(await asyncio.gather(compared, written))

    def _go_on(self) -> None:
        """Let batches submit commands again, after a pair."""
        if self.lost is None:
            self._host.pause_batches(False)
            self._loop.call_soon(self._reap)

    async def execute_batch(self, batch: HostBatch, *, within: float | None, what: str) -> None:
        """Run a batch to its end, or until a command fails: see HostBatch.left().

        within: seconds without an answer to any of its commands. Other commands keep their turns:
        the batch takes the entries that are free when it starts. Raises QueueLost as execute(). If
        the caller is cancelled, nothing else is sent, and the outstanding commands are waited for.
        """
        await self._take_turn()
        turns = 1
        try:
            while self._half is not None:
                await asyncio.shield(self._half)
            if self.lost is not None:
                raise QueueLost(self.lost)
            while turns < batch.depth and self._free > _SPARE and not self._line:
                self._free -= 1
                turns += 1
            deadline = _NEVER if within is None else self._loop.time() + within
            future: asyncio.Future[Completion] = self._loop.create_future()
            request = BatchRequest(future, deadline, within, what, batch, turns)
            self._host.submit_batch(batch, request, turns)
        except BaseException:
            for _ in range(turns):
                self._pass_turn()
            raise
        self._requests[request] = None
        if within is not None:
            self._watch(deadline)
        self._loop.call_soon(self._reap)  # a command that could not be submitted ends it at once
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            batch.stop()
            await finished([future])  # then the caller may free the buffer
            if not future.cancelled():
                future.exception()
            raise
        if batch.error == errno.ENOTCONN:  # the engine noticed it first
            self._reap()
            raise QueueLost(self._host.reason or os.strerror(batch.error))
        if batch.error:
            raise EngineError(batch.error, f"{what}: {os.strerror(batch.error)}")

    async def _start(
        self,
        sqe: bytes,
        data: Data | None,
        within: float | None,
        what: str,
        *,
        behind: asyncio.Future[None] | None = None,
    ) -> asyncio.Future[Completion]:
        """Submit a command whose turn it is; behind: the first of its pair, if it is the second."""
        future: asyncio.Future[Completion] = self._loop.create_future()
        slot = None if data is None else data.slot
        deadline = _NEVER if within is None else self._loop.time() + within
        request = Request(future, slot, deadline, within, what)
        try:
            await self._submit(sqe, request, data, behind)
        except BaseException:
            self._pass_turn()
            raise
        self._requests[request] = None
        if slot is not None:
            slot.hold()
        if within is not None:
            self._watch(deadline)
        return future

    def _send(self, sqe: bytes, request: Request, data: Data | None) -> None:
        if data is None:
            self._host.submit(sqe, request)
        else:
            memory, offset, length, to_device, _ = data
            self._host.submit(sqe, request, memory, offset, length, to_device)

    async def _submit(
        self,
        sqe: bytes,
        request: Request,
        data: Data | None,
        behind: asyncio.Future[None] | None,
    ) -> None:
        while self.lost is None:
            if self._half is not None and self._half is not behind:
                await asyncio.shield(self._half)  # no command comes between the two
                continue
            try:
                self._send(sqe, request, data)
                return
            except BlockingIOError:
                # The engine has less room than the queue has entries; a completion makes some.
                if not self._requests:
                    raise
                if self._progress is None:
                    self._progress = self._loop.create_future()
                await asyncio.shield(self._progress)
            except EngineError as error:
                self._lose(error)
        raise QueueLost(self.lost)

    # ---- turns ----

    async def _take_turn(self) -> None:
        if self.lost is not None:
            raise QueueLost(self.lost)
        if self._free and not self._line:
            self._free -= 1
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_turn()
            raise

    def _pass_turn(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    # ---- completions ----

    def _on_readable(self) -> None:
        try:
            self._host.drain()
        except EngineError as error:
            self._lose(error)
        self._reap()

    def _reap(self) -> None:
        """Handle all completions and leave the completion channel armed."""
        if self.lost is not None:
            return
        try:
            self._poll()
            self._host.arm()
            self._poll()
        except EngineError as error:
            self._lose(error)

    def _poll(self) -> None:
        while done := self._host.poll():
            self.completed += len(done)
            for request, status, dw0, dw1 in done:
                assert isinstance(request, Request)
                self._requests.pop(request, None)
                future = request.future
                if not future.done():
                    future.set_result(Completion(status, dw0, dw1))
                self._end(request)
        if self._progress is not None:  # commands of a batch are not in done, but make room, too
            self._progress.set_result(None)
            self._progress = None

    def _end(self, request: Request) -> None:
        if request.slot is not None:
            request.slot.drop()
        if request.turns == 1 and not self._line:
            self._free += 1
            return
        for _ in range(request.turns):
            self._pass_turn()

    # ---- timeouts ----

    def _watch(self, deadline: float) -> None:
        if self._timer is None or deadline < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = deadline
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        first = min(self._requests, key=lambda request: request.deadline, default=None)
        if first is None or first.deadline == _NEVER or self.lost is not None:
            return
        now = self._loop.time()
        first.extend(now)
        if first.deadline > now:
            self._watch(min(request.deadline for request in self._requests))
            return
        reason = f"the controller did not answer {first.what} within {first.within:g} s"
        self._fail(reason, timed_out=True)

    # ---- the end ----

    def _lose(self, error: EngineError) -> None:
        reason = self._host.reason or error.strerror or str(error)
        if error.errno not in (errno.ENOTCONN, errno.EBADF):
            reason = str(error)
        self._fail(reason, timed_out=False)

    def _fail(self, reason: str, *, timed_out: bool) -> None:
        if self.lost is not None:
            return
        self.lost = reason
        self._detach()
        self._on_lost(self, reason, timed_out)

    def _detach(self) -> None:
        self._loop.remove_reader(self._host.fileno())
        if self._timer is not None:
            self._timer.cancel()

    def close(self, reason: str = "the queue was closed") -> asyncio.Task[None]:
        """Disconnect, free, and fail commands in flight with QueueLost. Idempotent.

        Wait for the task, which is bounded in time, and continues to its end even if cancelled.
        """
        if self._closing is None:
            if self.lost is None:
                self.lost = reason
                self._detach()
            self._host.stop_spread()  # the queue is freed on a different thread
            self._closing = self._loop.create_task(self._close())
        return self._closing

    async def _close(self) -> None:
        await ended_on_thread(self._host.close)
        assert self.lost is not None
        if self.on_closed is not None:
            self.on_closed()
        requests, self._requests = list(self._requests), {}
        for request in requests:
            if request.slot is not None:
                request.slot.drop()
            refuse(request.future, self.lost, sent=True)
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None
        while self._line:
            refuse(self._line.popleft(), self.lost)
