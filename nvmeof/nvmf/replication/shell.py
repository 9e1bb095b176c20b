# SPDX-License-Identifier: BSD-3-Clause
"""What does the effects of a core: tasks of asyncio, one for each effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from nvmf.replication.machine import Effect, Fenced, Kind, Machine, Op, ReplicaError
from nvmf.replication.replica import Replica


class Shell:
    """Runs a core on replicas.  One event loop."""

    def __init__(self, core: Machine, replicas: Sequence[Replica], timeout: float) -> None:
        self.core = core
        self.replicas = replicas
        self.timeout = timeout
        """Seconds after which a replica that does not answer is lost."""
        self._running: list[set[asyncio.Task[None]]] = [set() for _ in replicas]
        self.events = asyncio.Event()
        """Set when an effect has ended."""

    def pump(self) -> None:
        """Start what the core wants done."""
        while effects := self.core.take():
            for effect in effects:
                task = asyncio.create_task(self._do(effect))
                running = self._running[effect.leg]
                running.add(task)
                task.add_done_callback(running.discard)

    async def _do(self, effect: Effect) -> None:
        replica = self.replicas[effect.leg]
        try:
            async with asyncio.timeout(self.timeout):
                result = await self._on(replica, effect)
        except Fenced as error:
            self.core.failed(effect, error)
        except TimeoutError:
            what = f"{replica.name} has not answered a {effect.kind} for {self.timeout:g} s"
            self.core.failed(effect, ReplicaError(what))
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
        """End what is under way to a replica, and open it again."""
        mine = asyncio.current_task()
        others = [task for task in self._running[leg] if task is not mine]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        await replica.fence()

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
        tasks = [task for running in self._running for task in running]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.core.abandon()
        for replica in self.replicas:
            await replica.close()
