# SPDX-License-Identifier: BSD-3-Clause
"""Measures replication: a mirror against a single replica, and the appends to a log.

Python begins and ends each operation here, on the host's side: figures of a mirror are to be
compared with those of a single replica by the same code, not with those of the methods, which the
engine measures.  With write_many(), Python begins and ends a call of as many writes as the depth.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from nvmf.pmem.figures import Figures, cpu_of, of_latencies, own_cpu
from nvmf.replication import Log, LogFull, Mirror, NamespaceReplica

MAX_RECORD = 64 << 10
"""Bytes of a record of a log."""
MANY = ", write_many"


class MirrorRow(TypedDict):
    """A mirror, or the replica that it is compared with, at one size and depth."""

    system: str
    """ "replica", or "mirror of N, quorum Q"; with ", write_many" at the end if each call has as
    many writes as the depth."""
    size: int
    depth: int
    figures: Figures | None
    """Figures of the writes."""
    reads: Figures | None
    target_cpu_seconds: float | None
    skipped: str
    times_replica: float | None
    """The median latency of writes divided by that of the replica."""


class LogRow(TypedDict):
    """A log at one record size and number of tasks that append."""

    system: str
    size: int
    """Bytes of a record."""
    appenders: int
    figures: Figures
    records_per_frame: float
    """Group commit: the average number of records in a frame."""
    target_cpu_seconds: float | None


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """The measurements to make."""

    urls: tuple[str, ...]
    quorum: int
    sizes: tuple[int, ...]
    depths: tuple[int, ...]
    seconds: float
    read_percent: int = 0
    processes: tuple[int, ...] = ()
    """Process identifiers of the targets, if they are on this machine."""


Operation = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Run:
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

        async with asyncio.TaskGroup() as group:
            for _ in range(self.depth):
                group.create_task(repeat())
        seconds = time.monotonic() - began
        cpu, after = own_cpu() - cpu, cpu_of(self.plan.processes)
        spent = None if after is None or targets is None else after - targets
        writes = of_latencies(took[False], self.size, seconds, cpu)
        reads = of_latencies(took[True], self.size, seconds, cpu) if share else None
        return writes, reads, spent


# ---- a mirror ----


async def measure_mirror(
    plan: ReplicaPlan, rows: list[MirrorRow], say: Callable[[str], None]
) -> None:
    """Measure a single replica and the mirror of all, and add the rows.

    The content of the namespaces is lost.

    Raises:
        OSError: A replica cannot be reached.
        ReplicationError: The mirror cannot be used.
    """
    count = len(plan.urls)
    mirror = f"mirror of {count}, quorum {plan.quorum}"
    for system in ("replica", mirror):
        replicas = [NamespaceReplica(url) for url in plan.urls]
        if system == "replica":
            only = replicas[0]
            await only.fence()
            try:
                await _blocks(plan, system, only, only.unit, rows, say)
            finally:
                await only.close()
            continue
        async with Mirror(replicas, plan.quorum, resync_rate=None) as made:
            await made.create()
            await made.clean()
            await _blocks(plan, system, made, made.block_size, rows, say)
    medians = {
        (row["system"].removeprefix("replica"), row["size"], row["depth"]): _median(row)
        for row in rows
        if row["system"].startswith("replica")
    }
    for row in rows:
        how = row["system"].removeprefix("replica").removeprefix(mirror)
        base, median = medians.get((how, row["size"], row["depth"])), _median(row)
        row["times_replica"] = median / base if base and median else None


def _median(row: MirrorRow) -> float:
    return row["figures"]["percentiles_us"]["50"] if row["figures"] else 0.0


async def _blocks(
    plan: ReplicaPlan,
    system: str,
    device: NamespaceReplica | Mirror,
    unit: int,
    rows: list[MirrorRow],
    say: Callable[[str], None],
) -> None:
    for size in plan.sizes:
        for depth in plan.depths:
            for how in ("", MANY) if depth > 1 and not plan.read_percent else ("",):
                row: MirrorRow = {
                    "system": system + how,
                    "size": size,
                    "depth": depth,
                    "figures": None,
                    "reads": None,
                    "target_cpu_seconds": None,
                    "skipped": "",
                    "times_replica": None,
                }
                rows.append(row)
                if size % unit or size * (depth if how else 1) > device.size:
                    row["skipped"] = f"it writes blocks of {unit} bytes, {device.size} at most"
                    continue
                say(f"measuring {system + how}, {size} bytes, depth {depth}")
                found = await _load(plan, device, size, depth, many=bool(how))
                row["figures"], row["reads"], row["target_cpu_seconds"] = found


async def _load(
    plan: ReplicaPlan, device: NamespaceReplica | Mirror, size: int, depth: int, *, many: bool
) -> tuple[Figures, Figures | None, float | None]:
    places = range(device.size // size)
    data = random.randbytes(size)

    async def write() -> None:
        await device.write(random.choice(places) * size, data)

    async def read() -> None:
        await device.read(random.choice(places) * size, size)

    whole = data * depth

    async def write_many() -> None:
        await device.write_many([at * size for at in random.sample(places, depth)], whole)

    if many:
        return await _Run(plan, size, 1, depth).of(write_many)
    return await _Run(plan, size, depth).of(write, read)


# ---- a log ----


class _Counting(NamespaceReplica):
    """Counts what is written: each frame of a log is one write."""

    writes = 0

    async def write(self, offset: int, data: bytes) -> None:
        self.writes += 1
        await super().write(offset, data)

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        begun = super().begin_write(offset, data, then)
        self.writes += begun
        return begun


async def measure_log(plan: ReplicaPlan, rows: list[LogRow], say: Callable[[str], None]) -> None:
    """Measure the appends of a log on all replicas, and add the rows.

    The content of the namespaces is lost.

    Raises:
        OSError: A replica cannot be reached.
        ReplicationError: The log cannot be used.
    """
    replicas = [_Counting(url) for url in plan.urls]
    system = f"log of {len(plan.urls)}, quorum {plan.quorum}"
    for size in (size for size in plan.sizes if size <= MAX_RECORD):
        for depth in plan.depths:
            say(f"measuring {system}, records of {size} bytes, {depth} tasks")
            async with Log(replicas, plan.quorum) as log:
                await log.create()
                appender = _Appender(log, size)
                before = replicas[0].writes
                figures, _, cpu = await _Run(plan, size, depth).of(appender.append)
                frames = replicas[0].writes - before - appender.truncations
            rows.append(
                {
                    "system": system,
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


async def measure_all(
    plan: ReplicaPlan,
    loads: Sequence[str],
    mirrors: list[MirrorRow],
    logs: list[LogRow],
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure "mirror", "log", or both: see measure_mirror and measure_log."""
    if "mirror" in loads:
        await measure_mirror(plan, mirrors, say)
    if "log" in loads:
        await measure_log(plan, logs, say)
