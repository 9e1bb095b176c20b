# SPDX-License-Identifier: BSD-3-Clause
"""The table of the methods of persistence, and what the target has confirmed."""

from __future__ import annotations

from nvmf.cli.output import print_table, size_text
from nvmf.pmem.bench import Results, Row
from nvmf.pmem.platform import ASSUMPTIONS
from nvmf.spec.memory import Platform


def facts_of(platform: Platform) -> dict[str, bool]:
    """Return what the target confirms, by name."""
    return {fact.name.lower(): fact in platform for fact in ASSUMPTIONS if fact.name}


def print_rows(results: Results) -> None:
    """Print a line for each measurement, and a word on assumptions that are not confirmed."""
    print_table(
        ("method", "size", "depth", "p50 us", "p99 us", "p99.99 us", "IOPS", "B/s", "x floor"),
        [_cells(row) for row in results.rows],
    )
    if any(row["assumptions_unmet"] for row in results.rows):
        print("* the target does not confirm what the method assumes: not known to be persistent")


def _cells(row: Row) -> tuple[str, ...]:
    name = row["method"] + ("*" if row["assumptions_unmet"] else "")
    begin = (name, size_text(row["size"]), str(row["depth"]))
    figures = row["figures"]
    if figures is None:
        return (*begin, f"skipped: {row['skipped']}", "", "", "", "", "")
    ratio = row["times_floor"]
    latency = figures["percentiles_us"]
    return (
        *begin,
        *(f"{latency[p]:.1f}" for p in ("50", "99", "99.99")),
        f"{figures['iops']:.0f}",
        size_text(figures["bytes_per_second"]),
        f"{ratio:.2f}" if ratio is not None else "",
    )
