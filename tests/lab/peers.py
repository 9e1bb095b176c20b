#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The README's table of peers, from the results of the last runs of the lab.

``./dev lab --readme`` runs it.  A cell without a result says so: only observed results are
listed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import results
from lab.cells import MATRIX, Cell
from lab.prepare import ROOT, SERIES
from lab.results import Outcome

BEGIN = "<!-- peers: written by ./dev lab --readme -->"
END = "<!-- peers end -->"
NOT_RUN = "not run"
WORD = re.compile(rf"all \d+|\d+ of \d+ FAILED|{NOT_RUN}")
"""The form of a cell of the table."""

TARGETS = {
    "kernel": "Linux nvmet-rdma",
    "ours": "ours, system verbs",
    "ours_outside": "ours, embedded {embedded}",
}
HOSTS = {
    "kernel": "Linux nvme-rdma",
    "ours": "ours, system verbs",
    "ours_outside": "ours, embedded {embedded}",
    "pyverbs": "pyverbs, raw capsules and CM messages",
}
EMBEDDED = {"iwarp": "iWARP", "roce": "RoCEv2"}
DEVICES = {
    "siw": "siw",
    "rxe": "rxe",
    "siw-ipv6": "siw over IPv6",
    "rxe-ipv6": "rxe over IPv6",
}


def word(cell: Cell, series: str, outcomes: Iterable[Outcome]) -> str:
    """Return the entry of a cell in a kernel's column."""
    ours = [
        one.outcome
        for one in outcomes
        if (one.kernel, one.target, one.host, one.device)
        == (series, cell.target, cell.host, cell.device)
    ]
    run = [outcome for outcome in ours if outcome != "skipped"]
    if failed := run.count("failed"):
        return f"{failed} of {len(run)} FAILED"
    return f"all {len(run)}" if run else NOT_RUN


def names(cell: Cell) -> tuple[str, str, str]:
    """Return the target, host and device of a row, as text."""
    embedded = EMBEDDED[cell.embedded]
    target, host = TARGETS[cell.target], HOSTS[cell.host]
    return target.format(embedded=embedded), host.format(embedded=embedded), DEVICES[cell.device]


def columns(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """Return the series of the columns: the newest kernel with results, and those of the matrix."""

    def number(series: str) -> list[int]:
        return [int(part) for part in series.split(".")]

    later = {one.kernel for one in outcomes if number(one.kernel) > number(SERIES[0])}
    return (*sorted(later, key=number)[-1:], *SERIES)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the rows, in Markdown."""
    shown, kernels = columns(outcomes), []
    for series in shown:
        releases = {one.date: one.release for one in outcomes if one.kernel == series}
        kernels.append(f"Linux {releases[max(releases)] if releases else series}")
    rows = [("target", "host", "device", *kernels), ("---",) * (3 + len(shown))]
    for cell in MATRIX:
        words = (word(cell, series, outcomes) for series in shown)
        rows.append((*names(cell), *words))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def rewrite(readme: str, outcomes: Sequence[Outcome]) -> str:
    """Return a README with an updated table; ValueError if it has no place for one."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"it has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table(outcomes)}\n{END}{after}"


def main() -> int:
    """Rewrite README.md; return the exit status."""
    readme = ROOT / "README.md"
    outcomes = results.read()
    if not outcomes:
        print(f"peers: there is no {results.FILE}: run ./dev lab --kernel all", file=sys.stderr)
        return 1
    try:
        readme.write_text(rewrite(readme.read_text(), outcomes))
    except (OSError, ValueError) as error:
        print(f"peers: {readme}: {error}", file=sys.stderr)
        return 1
    print(f"{readme}: {len(outcomes)} results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
