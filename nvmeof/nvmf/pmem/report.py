# SPDX-License-Identifier: BSD-3-Clause
"""A page with measurements, in Markdown: nvmeof/docs/persistent-memory-figures.md is one."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nvmf.pmem.bench import Results

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
    """That this process may use."""
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


def page(command: str, machine: Machine, setting: str, results: Results) -> str:
    """Return the page.

    Args:
        command: What measured.
        machine: Where.
        setting: A sentence on the targets, and on where their memory was.
        results: The methods.
    """
    parts = [_HEAD.format(command=command), f"Machine: {machine}.\n", f"{setting}\n"]
    parts += ["## Methods\n", *_table(_METHODS, _methods(results)), ""]
    if any(row["assumptions_unmet"] for row in results.rows):
        parts.append(
            "\\* The target does not confirm what the method assumes: the figures are those of the "
            "method, but nothing is known of persistence.\n"
        )
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


def _table(header: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
