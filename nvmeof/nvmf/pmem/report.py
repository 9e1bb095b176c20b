# SPDX-License-Identifier: BSD-3-Clause
"""A page with measurements, in Markdown, such as nvmeof/docs/persistent-memory-figures.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nvmf.pmem.bench import Results
from nvmf.pmem.demo import Outcome

_HEAD = """\
# Persistent memory: measurements

This page is written by the command below, which measures; do not edit it.
What the columns mean is in [the guide](persistent-memory.md#reading-the-figures).

```sh
{command}
```
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that measured."""

    processors: int
    """Processors that this process may use."""
    model: str
    virtual: bool
    kernel: str
    load: float
    """Runnable processes before the measurement, averaged over a minute."""

    @classmethod
    def this(cls) -> Machine:
        """Return this machine."""
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        found = dict(reversed(_fields(lines)))
        return cls(
            len(os.sched_getaffinity(0)),
            found.get("model name") or platform.machine(),
            "hypervisor" in found.get("flags", "").split(),
            platform.release().partition("-")[0],
            os.getloadavg()[0],
        )

    def __str__(self) -> str:
        kind = "virtual " if self.virtual else ""
        count = f"{self.processors} {kind}processor{'s' if self.processors != 1 else ''}"
        return (
            f"{count} ({self.model}), Linux {self.kernel}. The load average was {self.load:.2f} "
            "before the run: that much of the processors other programs took"
        )


def _fields(lines: Sequence[str]) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in lines)
    return [(name.strip(), value.strip()) for name, _, value in pairs if name.strip()]


def page(command: str, machine: Machine, setting: str, outcome: Outcome) -> str:
    """Return the page.

    Args:
        command: What measured.
        machine: Where.
        setting: A sentence on the targets, and on where their memory was.
        outcome: The methods, and the replication.
    """
    results = outcome.bench
    parts = [_HEAD.format(command=command), f"Machine: {machine}.\n", f"{setting}\n"]
    parts += ["## Methods\n", *_table(_METHODS, _methods(results)), ""]
    if any(row["assumptions_unmet"] for row in results.rows):
        parts.append(
            "\\* The target does not confirm what the method assumes: the figures are those of the "
            "method, but nothing is known of persistence.\n"
        )
    parts += ["## A mirror\n", *_table(_MIRROR, _mirrors(outcome)), ""]
    parts += ["## A log\n", *_table(_LOG, _logs(outcome)), ""]
    parts += ["## A resynchronisation\n", *_table(_RESYNC, _resyncs(outcome)), ""]
    return "\n".join(parts)


_METHODS = ("method", "bytes", "depth", "p50 µs", "p99 µs", "p99.999 µs", "operations/s",
            "MB/s", "× floor")  # fmt: skip


def _methods(results: Results) -> Iterator[tuple[str, ...]]:
    for row in results.rows:
        name = row["method"] + ("\\*" if row["assumptions_unmet"] else "")
        begin = (name, str(row["size"]), str(row["depth"]))
        figures = row["figures"]
        if figures is None:
            yield (*begin, row["skipped"], *[""] * 5)
            continue
        latency, ratio = figures["percentiles_us"], row["times_floor"]
        yield (
            *begin,
            *(f"{latency[p]:.1f}" for p in ("50", "99", "99.999")),
            f"{figures['iops']:.0f}",
            f"{figures['bytes_per_second'] / 1e6:.1f}",
            "" if ratio is None else f"{ratio:.2f}",
        )


_MIRROR = ("system", "bytes", "depth", "p50 µs", "p99 µs", "operations/s", "MB/s", "host µs",
           "targets µs", "× replica", "of wire")  # fmt: skip
_LOG = (
    "system",
    "method",
    "bytes of a record",
    "tasks",
    "p50 µs",
    "p99 µs",
    "appends/s",
    "records in a frame",
)


def _mirrors(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    for row in outcome.replicas.mirrors:
        figures = row["figures"]
        if figures is None:
            continue
        ratios = (row["times_replica"], row["of_wire"])
        times = (figures["cpu_seconds"], row["target_cpu_seconds"])
        yield (
            row["system"],
            str(row["size"]),
            str(row["depth"]),
            *(f"{figures['percentiles_us'][p]:.0f}" for p in ("50", "99")),
            f"{figures['iops']:.0f}",
            f"{figures['bytes_per_second'] / 1e6:.1f}",
            *(
                f"{each / figures['ios'] * 1e6:.1f}" if each and figures["ios"] else ""
                for each in times
            ),
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        )


_RESYNC = ("system", "bytes of a write", "depth", "writes/s alone", "writes/s beside", "loss",
           "MB/s copied beside", "MB/s copied alone", "of a copy")  # fmt: skip


def _resyncs(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    for row in outcome.replicas.resyncs:
        yield (
            row["system"],
            str(row["size"]),
            str(row["depth"]),
            f"{row['without_iops']:.0f}",
            f"{row['during_iops']:.0f}",
            f"{row['loss']:.1%}",
            f"{row['during_bytes_per_second'] / 1e6:.1f}",
            f"{row['idle_bytes_per_second'] / 1e6:.1f}",
            f"{row['idle_bytes_per_second'] / row['copy_bytes_per_second']:.2f}",
        )


def _logs(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    for row in outcome.replicas.logs:
        figures = row["figures"]
        yield (
            row["system"],
            row["method"] + ("\\*" if row["assumptions_unmet"] else ""),
            str(row["size"]),
            str(row["appenders"]),
            *(f"{figures['percentiles_us'][p]:.0f}" for p in ("50", "99")),
            f"{figures['iops']:.0f}",
            f"{row['records_per_frame']:.1f}",
        )


def _table(header: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
