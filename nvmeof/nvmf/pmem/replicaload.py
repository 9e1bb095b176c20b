# SPDX-License-Identifier: BSD-3-Clause
"""A load of tasks that repeat an operation of Python, and its figures."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nvmf.pmem.figures import Figures, cpu_of, of_latencies, own_cpu
from nvmf.pmem.gathering import load_of
from nvmf.pmem.replicarows import ReplicaPlan

Operation = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Run:
    """One load: tasks that repeat an operation until the time is over."""

    plan: ReplicaPlan
    size: int
    depth: int
    each: int = 1
    """Writes of one operation, which all end with it."""

    async def of(
        self, write: Operation, read: Operation | None = None
    ) -> tuple[Figures, Figures | None, float | None]:
        """Return the figures of writes and of reads, and the targets' processor time."""
        share = self.plan.read_percent if read is not None else 0
        took: dict[bool, list[float]] = {False: [], True: []}
        cpu, targets, began = own_cpu(), cpu_of(self.plan.processes), time.monotonic()
        until = began + self.plan.seconds

        async def repeat() -> None:
            while (start := time.monotonic()) < until:
                reads = random.random() * 100 < share
                await (read if reads and read is not None else write)()
                took[reads] += [time.monotonic() - start] * self.each

        await load_of(repeat() for _ in range(self.depth))
        seconds = time.monotonic() - began
        cpu, after = own_cpu() - cpu, cpu_of(self.plan.processes)
        spent = None if after is None or targets is None else after - targets
        writes = of_latencies(took[False], self.size, seconds, cpu)
        reads = of_latencies(took[True], self.size, seconds, cpu) if share else None
        return writes, reads, spent
