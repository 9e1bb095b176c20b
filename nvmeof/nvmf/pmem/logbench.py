# SPDX-License-Identifier: BSD-3-Clause
"""Measures the appends of a log: by record size, number of tasks, and method of persistence."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from nvmf.initiator import ConnectOptions
from nvmf.pmem.remote import MemoryMethod
from nvmf.pmem.replica import RemoteMemoryReplica
from nvmf.pmem.replicaload import Run
from nvmf.pmem.replicarows import LogRow, ReplicaPlan
from nvmf.replication import Log, LogFull, NamespaceReplica

MAX_RECORD = 64 << 10
"""Bytes of a record of a log."""
LOG_METHODS: dict[str, MemoryMethod | None] = {
    "nvme-fua": None,
    "write-read": "write-read",
    "write-flush": "write-flush",
    "write-flush-tail": "write-flush-tail",
    "write-send": "write-send",
}
"""Methods by name; None: by NVMe commands."""


class _Counting(NamespaceReplica):
    """Counts what is written: each frame of a log is one write."""

    writes = 0
    unmet: tuple[str, ...] = ()

    async def write(self, offset: int, data: bytes) -> None:
        self.writes += 1
        await super().write(offset, data)

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        begun = super().begin_write(offset, data, then)
        self.writes += begun
        return begun


class _CountingMemory(RemoteMemoryReplica):
    """The same, by remote memory."""

    writes = 0

    async def write(self, offset: int, data: bytes) -> None:
        self.writes += 1
        await super().write(offset, data)

    async def append(self, offset: int, data: bytes, at: int, word: bytes) -> None:
        self.writes += 1
        await super().append(offset, data, at, word)


def _replicas(plan: ReplicaPlan, method: str) -> Sequence[_Counting] | Sequence[_CountingMemory]:
    by = LOG_METHODS[method]
    if by is None:
        return [_Counting(url) for url in plan.urls]
    options = ConnectOptions()
    if plan.hostnqn is not None:
        options = options.with_options({"hostnqn": plan.hostnqn})
    return [_CountingMemory(url, method=by, force=plan.force, options=options) for url in plan.urls]


async def measure_log(plan: ReplicaPlan, rows: list[LogRow], say: Callable[[str], None]) -> None:
    """Measure the appends of a log on all replicas, and add the rows.

    The content of the namespaces is lost.

    Raises:
        OSError: A replica cannot be reached.
        ReplicationError: The log cannot be used; also if a target does not confirm what a method
            assumes, and the plan does not force it.
    """
    system = f"log of {len(plan.urls)}, quorum {plan.quorum}"
    for method in plan.methods:
        replicas = _replicas(plan, method)
        for size in (size for size in plan.sizes if size <= MAX_RECORD):
            for depth in plan.depths:
                say(f"measuring {system}, {method}, records of {size} bytes, {depth} tasks")
                async with Log(replicas, plan.quorum) as log:
                    await log.create()
                    unmet = max((one.unmet for one in replicas), key=len)
                    appender = _Appender(log, size)
                    before = replicas[0].writes
                    figures, _, cpu = await Run(plan, size, depth).of(appender.append)
                    frames = replicas[0].writes - before - appender.truncations
                rows.append(
                    {
                        "system": system,
                        "method": method,
                        "assumptions_unmet": list(unmet),
                        "size": size,
                        "appenders": depth,
                        "figures": figures,
                        "records_per_frame": figures["ios"] / frames if frames > 0 else 0.0,
                        "target_cpu_seconds": cpu,
                    }
                )


class _Appender:
    """Appends records of one size, and truncates when the log is full."""

    def __init__(self, log: Log, size: int) -> None:
        self.truncations = 0
        """Each writes a header."""
        self._log = log
        self._record = random.randbytes(size)
        self._last = 0
        self._truncating = asyncio.Lock()

    async def append(self) -> None:
        for _ in range(100):
            seen = self.truncations
            try:
                self._last = max(self._last, await self._log.append(self._record))
                return
            except LogFull:
                await self._truncate(seen)
        raise LogFull("the log is too small for so many tasks and records of that size")

    async def _truncate(self, seen: int) -> None:
        async with self._truncating:
            if self.truncations == seen:  # or another task has done it meanwhile
                await self._log.truncate(self._last)
                self.truncations += 1
