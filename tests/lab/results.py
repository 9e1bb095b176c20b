# SPDX-License-Identifier: BSD-3-Clause
"""The results of the last runs: ``build/lab/results.json``, merged over runs.

One entry for every test of every cell on every kernel: its outcome, the kernel's release and the
day.  ``./dev lab --readme`` writes the README's table of peers from it.  If a run looked for a
test and did not find it, its entry is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.cells import Cell
from lab.prepare import ROOT
from support.outcomes import Collected, alone, replace

FILE = ROOT / "build" / "lab" / "results.json"
FILES = frozenset(
    file.relative_to(ROOT).as_posix() for file in Path(__file__).parent.glob("test_*.py")
)
"""A test whose outcome does not name its file is in one of these."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test of a cell."""

    kernel: str
    """The series: 6.12."""
    target: str
    host: str
    device: str
    test: str
    """Its name, with its parameters except the cell and the kernel."""
    outcome: str
    """passed, failed or skipped."""
    release: str
    """The release, as the guest's uname reports it."""
    date: str
    """Date of the run: 2026-11-21."""
    file: str = ""
    """The test's path from the root of the tree."""

    @property
    def key(self) -> tuple[str, ...]:
        """The key by which a later run replaces it."""
        return (self.kernel, self.target, self.host, self.device, self.test)


def name(cell: Cell, test: str) -> str:
    """Return the name of a test of a cell, for any kernel."""
    return f"{cell} {test}"


def _went(one: Outcome, there: Collected) -> bool:
    """Whether its test is known to no longer exist."""
    test = name(Cell(one.target, one.device, one.host), one.test)
    if one.file:
        return there.lacks(test, one.file)
    return test not in there.tests and there.files >= FILES


def read(file: Path = FILE) -> list[Outcome]:
    """Return the present outcomes; none if there was no run."""
    try:
        return [Outcome(**entry) for entry in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return []


def merge(new: Iterable[Outcome], there: Collected, file: Path = FILE) -> None:
    """Replace outcomes with newer ones, and drop those of tests that no longer exist."""
    with alone(file):
        known = {one.key: one for one in read(file) if not _went(one, there)}
        known.update({outcome.key: outcome for outcome in new})
        replace(file, (asdict(known[key]) for key in sorted(known)))
