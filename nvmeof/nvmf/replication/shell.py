# SPDX-License-Identifier: BSD-3-Clause
"""The execution of a core's effects: calls if a replica supports them, else a task for each.

A read or write that a replica can send at once (QuickReplica) costs no task and no further turn of
the event loop: its end is a call, which may send what the core wants next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from nvmf.replication.legs import L, LegMachine
from nvmf.replication.machine import Effect, Fenced, Kind, Op, ReplicaError
from nvmf.replication.replica import QuickReplica, Replica


class Shell:
    """Runs a core on replicas.  One event loop."""

    def __init__(self, core: LegMachine[L], replicas: Sequence[Replica], timeout: float) -> None:
        self.core = core
        self.replicas = replicas = list(replicas)
        self.timeout = timeout
        """Seconds after which a replica that does not answer is lost."""
        core.room = lambda leg: (replicas[leg].size, replicas[leg].unit)
        self._quick = [each if isinstance(each, QuickReplica) else None for each in replicas]
        self._running: list[dict[asyncio.Task[None], Effect]] = [{} for _ in replicas]
        self._sent: list[set[Effect]] = [set() for _ in replicas]
        """Effects that were begun without a task and have not ended."""
        self._line: deque[tuple[float, Effect]] = deque()
        """The same, and what has ended since, with the times when they are too late, in order."""
        self._timer: asyncio.TimerHandle | None = None
        self.events = asyncio.Event()
        """Set when an effect has ended."""

    def pump(self) -> None:
        """Start what the core wants done."""
        while self.core.outbox:
            for effect in self.core.take():
                if not self._send(effect):
                    self._start(effect)

    # ---- with calls ----

    def _send(self, effect: Effect) -> bool:
        """Send a read or write without a task, if that is possible."""
        replica = self._quick[effect.leg]
        if replica is None:
            return False
        if effect.kind is Kind.WRITE:

            def written(good: bool) -> None:
                self._answered(effect, b"" if good else None)

            begun = replica.begin_write(effect.offset, effect.data, written)
        elif effect.kind is Kind.READ:

            def read(data: bytes | None) -> None:
                self._answered(effect, data)

            begun = replica.begin_read(effect.offset, effect.length, read)
        else:
            return False
        if begun:
            loop = asyncio.get_running_loop()
            due = loop.time() + self.timeout
            self._sent[effect.leg].add(effect)
            self._line.append((due, effect))
            if self._timer is None:
                self._timer = loop.call_at(due, self._late)
        return begun

    def _answered(self, effect: Effect, result: bytes | None) -> None:
        sent = self._sent[effect.leg]
        if effect not in sent:
            return  # it was given up
        sent.remove(effect)
        while self._line and self._line[0][1] not in self._sent[self._line[0][1].leg]:
            self._line.popleft()
        if result is None or len(result) != effect.length:
            self._start(effect)  # again, for the retries and the reason
            return
        self.core.finished(effect, result)
        self.events.set()
        self.pump()

    def _late(self) -> None:
        """Give up what has not been answered in time."""
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._line:
            due, effect = self._line[0]
            if effect in self._sent[effect.leg]:
                if due > loop.time():
                    self._timer = loop.call_at(due, self._late)
                    break
                self._sent[effect.leg].remove(effect)
                self.core.failed(effect, self._silence(effect))
            self._line.popleft()
        self.events.set()
        self.pump()

    def _silence(self, effect: Effect) -> ReplicaError:
        name = self.replicas[effect.leg].name
        return ReplicaError(f"{name} has not answered a {effect.kind} for {self.timeout:g} s")

    # ---- with tasks ----

    def _start(self, effect: Effect) -> None:
        task = asyncio.create_task(self._do(effect))
        running = self._running[effect.leg]
        running[task] = effect
        task.add_done_callback(lambda ended: running.pop(ended, None))

    async def _do(self, effect: Effect) -> None:
        replica = self.replicas[effect.leg]
        try:
            async with asyncio.timeout(self.timeout):
                result = await self._on(replica, effect)
        except Fenced as error:
            self.core.failed(effect, error)
        except TimeoutError:
            self.core.failed(effect, self._silence(effect))
        except Exception as error:  # whatever a replica raises, it has failed
            self.core.failed(effect, ReplicaError(f"{replica.name}: {error}"))
        else:
            self.core.finished(effect, result)
        self.events.set()
        self.pump()

    async def _on(self, replica: Replica, effect: Effect) -> bytes:
        if effect.kind is Kind.READ:
            data = await replica.read(effect.offset, effect.length)
            if len(data) != effect.length:
                raise ReplicaError(f"it returned {len(data)} bytes for {effect.length}")
            return data
        if effect.kind is Kind.WRITE:
            await replica.write(effect.offset, effect.data)
        elif effect.kind is Kind.FLUSH:
            await replica.flush()
        else:
            await self._fence(replica, effect.leg)
        return b""

    async def _fence(self, replica: Replica, leg: int) -> None:
        """Open a replica again, which ends what is under way to it: the core is told of each."""
        ended = await self._give_up(leg)
        try:
            await replica.fence()
        finally:
            for effect in ended:
                self.core.failed(effect, ReplicaError(f"{replica.name} was opened again"))

    async def _give_up(self, leg: int) -> list[Effect]:
        """Wait for nothing that is under way to a replica; the effects that have not ended."""
        ended = list(self._sent[leg])
        self._sent[leg].clear()
        mine = asyncio.current_task()
        others = [task for task in self._running[leg] if task is not mine]
        running = dict(self._running[leg])
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        return ended + [running[task] for task in others if task.cancelled()]

    async def exchange(self, leg: int, replica: Replica) -> Replica:
        """Use a different replica for one that is lost; return the old one, which is not closed."""
        for effect in await self._give_up(leg):
            self.core.failed(effect, ReplicaError("it was replaced"))
        old, self.replicas[leg] = self.replicas[leg], replica
        self._quick[leg] = replica if isinstance(replica, QuickReplica) else None
        return old

    # ---- for callers ----

    async def ask(self, begin: Callable[[Op], object]) -> object:
        """Begin an operation and wait for its end; cancelling does not end it."""
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def then(op: Op) -> None:
            if future.done():
                return
            if op.error:
                future.set_exception(op.error)
            else:
                future.set_result(op.result)

        begin(Op(then))
        self.pump()
        return await future

    async def close(self) -> None:
        """End all that is under way, and close the replicas."""
        for leg in range(len(self.replicas)):
            await self._give_up(leg)
        self._line.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.core.abandon()
        for replica in self.replicas:
            await replica.close()
