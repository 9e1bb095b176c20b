# SPDX-License-Identifier: BSD-3-Clause
"""Measures the methods of persistence, each against the floor of the same run.

The floor is a bare exchange of the same bytes over the same kind of connection: an RDMA WRITE, and
a message of 24 bytes behind it that the target answers at once, with nothing made persistent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, TypedDict

from nvmf import engine
from nvmf.initiator import TransportId
from nvmf.pmem.figures import PERCENTILES, Figures, Load, compared, cpu_of, of_part
from nvmf.pmem.opening import Secrets
from nvmf.pmem.platform import BLOCK_METHODS, FLUSH_METHODS, TAIL, MethodRefused, unmet
from nvmf.pmem.remote import RemoteMemory
from nvmf.spec.memory import Platform

MAX_SIZE = 1 << 20
"""Bytes of one operation."""
MAX_DEPTH = 128
_BLOCK = 512
"""The smallest block; an operation of a size that is not whole blocks fails otherwise."""


class Row(TypedDict):
    """A method at one size and depth."""

    method: str
    size: int
    """Bytes of an operation."""
    depth: int
    """Operations outstanding."""
    assumptions_unmet: list[str]
    """Assumptions of the method that the target does not confirm: it is then unknown whether
    written data is persistent."""
    figures: Figures | None
    """Figures of the writes."""
    reads: Figures | None
    """Figures of the reads, if the plan has any."""
    target_cpu_seconds: float | None
    """Processor time of the target's processes for all operations; None if they are not known."""
    skipped: str
    """Why there are no figures, or ""."""
    times_floor: float | None
    """The median latency divided by that of the floor: of writes, or of reads if there are only
    these. The median of the rounds."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make."""

    place: TransportId
    nsid: int
    hostnqn: str | None
    device: Literal["iwarp", "roce", "system"]
    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    depths: tuple[int, ...]
    seconds: float
    """Duration of each measurement."""
    rounds: int = 1
    """Measurements of each method and the floor, in turn: the one with the median of their median
    latencies counts."""
    secrets: Secrets = field(default_factory=Secrets)
    """Keys, if the subsystem asks the host to authenticate."""
    read_percent: int = 0
    """Percent of operations that read; the others write with a method."""
    processes: tuple[int, ...] = ()
    """The target's, if they are on this machine: their processor time is measured."""
    force: bool = False
    """Also measure methods whose assumptions the target does not confirm."""


@dataclass(slots=True)
class Results:
    """The results of a plan."""

    platform: Platform = field(default_factory=lambda: Platform(0))
    rows: list[Row] = field(default_factory=list)
    """For each size and depth: the floor (method "floor"), then the methods."""


async def measure(
    plan: Plan, results: Results, progress: Callable[[int, int, str], None] | None = None
) -> None:
    """Measure, and add each row to results.

    progress: called with (done, total, what comes next).

    Raises:
        MethodRefused: The target does not confirm what a method assumes, and force is not set.
        OSError: The target cannot be reached, or refuses; or a write failed.
    """
    # Every method is compared with the floor, which needs the connection for memory.
    memory = await RemoteMemory.connect(
        plan.place,
        plan.nsid,
        method="write-send",
        force=True,
        hostnqn=plan.hostnqn,
        device=plan.device,
        depth=max(plan.depths),
        slot_bytes=(max(plan.sizes) + 7) & ~7,
        dhchap_secret=plan.secrets.host,
        dhchap_ctrl_secret=plan.secrets.controller,
    )
    try:
        results.platform = memory.platform
        _refuse(plan, memory)
        jobs = [(size, depth) for size in plan.sizes for depth in plan.depths]
        names = ("floor", *plan.methods)
        total, done = len(jobs) * len(names) * plan.rounds, 0
        for size, depth in jobs:
            taken: dict[str, list[Row]] = {name: [] for name in names}
            for turn in range(plan.rounds):
                floor = None
                for method in names:
                    if progress is not None:
                        progress(done, total, f"{method}, {size} bytes, depth {depth}")
                    row = await _one(plan, memory, method, size, depth)
                    found = compared(row["figures"], row["reads"])
                    floor = found if method == "floor" else floor
                    row["times_floor"] = _ratio(found, floor)
                    taken[method].append(row)
                    done += 1
                    if turn == plan.rounds - 1:
                        results.rows.append(_middle(taken[method]))
    finally:
        await memory.close()


def _refuse(plan: Plan, memory: RemoteMemory) -> None:
    for method in plan.methods:
        missing = unmet(method, memory.platform)
        possible = memory.flushes or method not in FLUSH_METHODS  # if it is not, the row says so
        if missing and possible and not plan.force:
            raise MethodRefused(
                f"{method} does not make anything persistent there: the target does not confirm "
                f"that {' and that '.join(missing)}"
            )


async def _one(plan: Plan, memory: RemoteMemory, method: str, size: int, depth: int) -> Row:
    row: Row = {
        "method": method,
        "size": size,
        "depth": depth,
        "assumptions_unmet": [] if method == "floor" else list(unmet(method, memory.platform)),
        "figures": None,
        "reads": None,
        "target_cpu_seconds": None,
        "skipped": "",
        "times_floor": None,
    }
    if size > memory.size:
        row["skipped"] = f"the range has {memory.size} bytes"
    elif method in FLUSH_METHODS and not memory.flushes:
        row["skipped"] = f"the {plan.device} device has no FLUSH"
    elif method == TAIL and Platform.ATOMIC not in memory.platform:
        row["skipped"] = "the target's device has no ATOMIC WRITE"
    elif depth > memory.depth:
        row["skipped"] = f"the target accepts a depth of {memory.depth}"
    elif method in BLOCK_METHODS and plan.secrets.host is not None:
        row["skipped"] = "this load of NVMe commands cannot authenticate"
    elif method in BLOCK_METHODS and size % _BLOCK:
        row["skipped"] = f"{method} writes whole blocks"
    else:
        before = cpu_of(plan.processes)
        found = await _load(plan, memory, method, size, depth)
        after = cpu_of(plan.processes)
        times = found["seconds"], found["cpu_seconds"]
        row["figures"] = of_part(found["write"], *times)
        row["reads"] = of_part(found["read"], *times) if plan.read_percent else None
        if before is not None and after is not None:
            row["target_cpu_seconds"] = after - before
    return row


async def _load(plan: Plan, memory: RemoteMemory, method: str, size: int, depth: int) -> Load:
    if method in BLOCK_METHODS:
        return await _run(lambda: _blocks(plan, method, size, depth), engine.bench_cancel)
    return await memory.bench(
        method,
        size=size,
        depth=depth,
        seconds=plan.seconds,
        percentiles=PERCENTILES,
        read_percent=plan.read_percent,
    )


async def _run(work: Callable[[], Load], cancel: Callable[[], None]) -> Load:
    """Run work on a thread; a cancellation ends it there first."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancel()
        await asyncio.wait([task])
        raise


def _blocks(plan: Plan, method: str, size: int, depth: int) -> Load:
    found = engine.bench(
        traddr=plan.place.traddr,
        trsvcid=plan.place.trsvcid,
        subnqn=plan.place.subnqn,
        rw="randrw",
        read_percent=plan.read_percent,
        block_size=size,
        queue_depth=depth,
        seconds=plan.seconds,
        nsid=plan.nsid,
        kind=plan.device,
        hostnqn=plan.hostnqn,
        fua=method == "nvme-fua",
        flush=method == "nvme-write-flush",
        percentiles=PERCENTILES,
    )
    return {
        "seconds": found["seconds"],
        "cpu_seconds": found["cpu_seconds"],
        "write": found["write"],
        "read": found["read"],
    }


def _middle(rows: list[Row]) -> Row:
    """Return the row with the median of the median latencies, and the median of the ratios."""

    def latency(row: Row) -> float:
        found = compared(row["figures"], row["reads"])
        return found["percentiles_us"]["50"] if found is not None else 0.0

    ratios = [ratio for row in rows if (ratio := row["times_floor"]) is not None]
    middle = sorted(rows, key=latency)[len(rows) // 2]
    return {**middle, "times_floor": median(ratios) if ratios else None}


def _ratio(figures: Figures | None, floor: Figures | None) -> float | None:
    if figures is None or floor is None or not floor["percentiles_us"]["50"]:
        return None
    return figures["percentiles_us"]["50"] / floor["percentiles_us"]["50"]
