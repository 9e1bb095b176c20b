# SPDX-License-Identifier: BSD-3-Clause
"""The table of the methods of persistence, and what the target has confirmed."""

from __future__ import annotations

from collections.abc import Iterator

from nvmf.cli.output import print_table, size_text
from nvmf.pmem.bench import Results, Row
from nvmf.pmem.figures import compared
from nvmf.pmem.platform import ASSUMPTIONS
from nvmf.spec.memory import Platform

UNCONFIRMED = "* the target does not confirm what the method assumes: not known to be persistent"


def facts_of(platform: Platform) -> dict[str, bool]:
    """Return the properties that the target confirms, by name."""
    return {fact.name.lower(): fact in platform for fact in ASSUMPTIONS if fact.name}


def print_rows(results: Results) -> None:
    """Print a line for each measurement, and a note about assumptions that are not confirmed."""
    rows = [line for row in results.rows for line in _lines(row)]
    mixed = any(row["reads"] for row in results.rows)
    known = any(row["target_cpu_seconds"] is not None for row in results.rows)
    keep = [True] * len(_HEADER)
    keep[_OPERATION], keep[_TARGET] = mixed, known
    print_table(_only(keep, _HEADER), [_only(keep, row) for row in rows])
    if any(row["assumptions_unmet"] for row in results.rows):
        print(UNCONFIRMED)


_HEADER = ("method", "op", "size", "depth", "p50 us", "p99 us", "p99.99 us", "p99.999 us", "IOPS",
           "B/s", "host us", "target us", "x floor")  # fmt: skip
_OPERATION = _HEADER.index("op")
_TARGET = _HEADER.index("target us")


def _only(keep: list[bool], cells: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(cell for cell, kept in zip(cells, keep, strict=True) if kept)


def _lines(row: Row) -> Iterator[tuple[str, ...]]:
    """Yield a row for writes and one for reads."""
    name = row["method"] + ("*" if row["assumptions_unmet"] else "")
    end = (size_text(row["size"]), str(row["depth"]))
    writes, reads = row["figures"], row["reads"]
    if writes is None:
        yield (name, "", *end, f"skipped: {row['skipped']}", *[""] * (len(_HEADER) - 5))
        return
    total = writes["ios"] + (reads["ios"] if reads else 0)
    told = compared(writes, reads)
    for word, figures in (("write", writes), ("read", reads)):
        if figures is None or (not figures["ios"] and figures is not told):
            continue
        latency = figures["percentiles_us"]
        ratio = row["times_floor"] if figures is told else None
        yield (
            name,
            word,
            *end,
            *(f"{latency[p]:.1f}" for p in ("50", "99", "99.99", "99.999")),
            f"{figures['iops']:.0f}",
            size_text(figures["bytes_per_second"]),
            cpu_text(figures["cpu_seconds"], total),
            cpu_text(row["target_cpu_seconds"], total),
            f"{ratio:.2f}" if ratio is not None else "",
        )


def cpu_text(seconds: float | None, count: int) -> str:
    """Return processor time for each operation, in microseconds."""
    return f"{seconds / count * 1e6:.1f}" if seconds is not None and count else ""
