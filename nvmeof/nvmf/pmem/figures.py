# SPDX-License-Identifier: BSD-3-Clause
"""Parts of all measurements: figures, percentiles, and the processor time of processes."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


class Figures(TypedDict):
    """A measurement of operations of one kind."""

    ios: int
    seconds: float
    iops: float
    bytes_per_second: float
    mean_us: float
    min_us: float
    max_us: float
    cpu_seconds: float
    """Processor time on this machine for all operations of the run: of the thread, which always
    polls, or of the whole process if Python transfers the data."""
    percentiles_us: dict[str, float]


def compared(writes: Figures | None, reads: Figures | None) -> Figures | None:
    """Return the figures that are compared with a floor: the reads if there are no writes."""
    return reads if reads is not None and writes is not None and not writes["ios"] else writes


class Part(TypedDict):
    """The reads or the writes of a run of the engine."""

    ios: int
    iops: float
    bytes_per_second: float
    mean_us: float
    min_us: float
    max_us: float
    percentiles_us: dict[str, float]


class Load(TypedDict):
    """A run of the engine."""

    seconds: float
    cpu_seconds: float
    write: Part
    read: Part


def of_part(part: Part, seconds: float, cpu_seconds: float) -> Figures:
    """Return the figures of a part, reads or writes, of a run of the engine."""
    return {
        "ios": part["ios"],
        "seconds": seconds,
        "iops": part["iops"],
        "bytes_per_second": part["bytes_per_second"],
        "mean_us": part["mean_us"],
        "min_us": part["min_us"],
        "max_us": part["max_us"],
        "cpu_seconds": cpu_seconds,
        "percentiles_us": part["percentiles_us"],
    }


def of_latencies(
    latencies: Sequence[float], size: int, seconds: float, cpu_seconds: float
) -> Figures:
    """Return the figures of operations of size bytes; latencies in seconds."""
    ordered = sorted(latencies)
    count = len(ordered)

    def at(percentile: float) -> float:
        return ordered[min(count - 1, int(count * percentile / 100))] * 1e6 if count else 0.0

    return {
        "ios": count,
        "seconds": seconds,
        "iops": count / seconds,
        "bytes_per_second": count * size / seconds,
        "mean_us": sum(ordered) / count * 1e6 if count else 0.0,
        "min_us": at(0),
        "max_us": at(100),
        "cpu_seconds": cpu_seconds,
        "percentiles_us": {f"{percentile:g}": at(percentile) for percentile in PERCENTILES},
    }


def own_cpu() -> float:
    """Return the processor time of this process, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_of(processes: Sequence[int]) -> float | None:
    """Return the processor time of processes of this machine, in seconds; None without any.

    Raises:
        ProcessLookupError: One of them does not exist.
    """
    if not processes:
        return None
    ticks = 0
    for pid in processes:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            raise ProcessLookupError(f"there is no process {pid} on this machine") from None
        fields = text.rpartition(")")[2].split()  # from the state on, which is the third one
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
