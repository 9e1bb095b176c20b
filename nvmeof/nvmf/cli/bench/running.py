# SPDX-License-Identifier: BSD-3-Clause
"""The runs of a load: repeats, progress, and the rates of each interval."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nvmf.cli.common import in_thread
from nvmf.cli.output import rate_text
from nvmf.engine import bench, bench_cancel, bench_live
from nvmf.initiator import TransportId

if TYPE_CHECKING:
    from nvmf.engine._engine import BenchFigures

_PROGRESS_SECONDS = 0.5
_FOREVER = 1e9
_END_SECONDS = 15.0
"""Maximum wait for the end of a cancelled load, which disconnects properly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load to run."""

    place: TransportId
    nsid: int
    rw: str
    bs: int
    rwmixread: int | None
    iodepth: int
    numjobs: int
    threads: int
    runtime: float | None
    """Seconds of each run, at most; None: it ends after its commands."""
    loops: int
    cpu: int
    """-1: not pinned."""
    kind: Literal["iwarp", "roce", "system"]
    hostnqn: str
    hostid: str
    remote_keys: Literal["command", "buffer"]
    percentiles: tuple[float, ...]
    interval: float | None
    """Seconds between the rows of a run's series; None: no series."""
    ramp: float = 0.0
    """Seconds before each run in which nothing is counted."""
    offset: int = 0
    """Bytes before the range."""
    size: int = 0
    """Bytes of the range; 0: to the end of the namespace."""
    commands: int = 0
    """Commands of each queue, after which a run ends; 0: no limit."""


@dataclass(slots=True)
class Run:
    """The results of one run."""

    began: float
    """Seconds since the epoch."""
    figures: BenchFigures
    """The result of the engine's bench()."""
    series: list[dict[str, float]] = field(default_factory=list)
    """Rates of each interval: seconds since the start, read_iops, write_iops, and bytes."""


async def measure(load: Load, runs: list[Run], *, live: bool) -> None:
    """Run the load load.loops times, and add each run to runs once it has results.

    A cancelled run is added with the results so far, if it had started.

    live: show progress on stderr, if that is a terminal.

    Raises:
        EngineError: The load cannot connect, or one of its commands failed.
    """
    for number in range(load.loops):
        began, series = time.time(), list[dict[str, float]]()
        figures: BenchFigures | None = None
        working = asyncio.ensure_future(in_thread(_engine, load))
        watching = asyncio.create_task(_watch(load, series, number, live=live))
        try:
            figures = await asyncio.shield(working)
        except asyncio.CancelledError:
            bench_cancel()
            running = bench_live()[0] > 0
            await asyncio.wait({working}, timeout=_END_SECONDS if running else 1)
            if working.done() and working.exception() is None:
                figures = working.result()
            raise
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            if figures is not None:
                runs.append(Run(began, figures, series))


def _engine(load: Load) -> BenchFigures:
    return bench(
        traddr=load.place.traddr,
        trsvcid=load.place.trsvcid,
        subnqn=load.place.subnqn,
        rw=load.rw,
        block_size=load.bs,
        queue_depth=load.iodepth,
        seconds=_FOREVER if load.runtime is None else load.runtime,
        queues=load.numjobs,
        threads=load.threads,
        nsid=load.nsid,
        read_percent=-1 if load.rwmixread is None else load.rwmixread,
        cpu=load.cpu,
        kind=load.kind,
        hostnqn=load.hostnqn,
        hostid=load.hostid,
        remote_keys=load.remote_keys,
        percentiles=load.percentiles,
        ramp=load.ramp,
        offset=load.offset,
        size=load.size,
        commands=load.commands,
    )


async def _watch(load: Load, series: list[dict[str, float]], number: int, *, live: bool) -> None:
    """Add rows to a series, and show the progress, until cancelled."""
    shown = live and sys.stderr.isatty()
    pause = load.interval or _PROGRESS_SECONDS
    limit = "" if load.runtime is None else f" of {load.runtime:g}"
    if load.interval is None and not shown:
        return
    before = (0.0, 0, 0)
    try:
        while True:
            await asyncio.sleep(pause)
            now = bench_live()
            seconds, reads, writes = (b - a for a, b in zip(before, now, strict=True))
            if seconds <= 0:  # not yet connected
                continue
            before = now
            row = {
                "seconds": round(now[0], 3),
                "read_iops": reads / seconds,
                "write_iops": writes / seconds,
                "read_bytes_per_second": reads * load.bs / seconds,
                "write_bytes_per_second": writes * load.bs / seconds,
            }
            if load.interval is not None:
                series.append(row)
            if shown:
                which = f"run {number + 1} of {load.loops}, " if load.loops > 1 else ""
                sys.stderr.write(
                    f"\r\x1b[K{which}{now[0]:.0f}{limit} s: "
                    f"read {rates(row, 'read')}, write {rates(row, 'write')}"
                )
                sys.stderr.flush()
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def rates(row: dict[str, float], part: str) -> str:
    """Return the rates of a row of a series as text."""
    return f"{row[f'{part}_iops']:.0f} IOPS {rate_text(row[f'{part}_bytes_per_second'], 1)}"
