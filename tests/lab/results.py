# SPDX-License-Identifier: BSD-3-Clause
"""What the last runs showed: ``build/lab/results.json``, merged over runs.

One entry for every test of every cell on every kernel: its outcome, the kernel's release and the
day.  ``./dev lab --readme`` writes the README's table of peers from it.  A test that a run looked
for and did not find is forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.cells import Cell
from lab.prepare import ROOT
from outcomes import Collected, alone, replace

FILE = ROOT / "build" / "lab" / "results.json"
FILES = frozenset(
    file.relative_to(ROOT).as_posix() for file in Path(__file__).parent.glob("test_*.py")
)
"""In one of which a test is whose outcome does not say in which."""


@dataclass(frozen=True)
class Outcome:
    """How a test of a cell went."""

    kernel: str
    """The series: 6.12."""
    target: str
    host: str
    device: str
    test: str
    """Its name, with what it is parametrised by besides the cell and the kernel."""
    outcome: str
    """passed, failed or skipped."""
    release: str
    """What the guest's uname says."""
    date: str
    """Of the run: 2026-11-21."""
    file: str = ""
    """Where the test is, from the root of the tree."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a later run replaces."""
        return (self.kernel, self.target, self.host, self.device, self.test)


def name(cell: Cell, test: str) -> str:
    """A test of a cell, on whichever kernel."""
    return f"{cell} {test}"


def _went(one: Outcome, there: Collected) -> bool:
    """Whether its test is known to be no longer there."""
    test = name(Cell(one.target, one.device, one.host), one.test)
    if one.file:
        return there.lacks(test, one.file)
    return test not in there.tests and there.files >= FILES


def read(file: Path = FILE) -> list[Outcome]:
    """What there is; nothing where no run has been."""
    try:
        return [Outcome(**entry) for entry in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return []


def merge(new: Iterable[Outcome], there: Collected, file: Path = FILE) -> None:
    """Put outcomes in the place of those that they repeat, and drop those of tests that went."""
    with alone(file):
        known = {one.key: one for one in read(file) if not _went(one, there)}
        known.update({outcome.key: outcome for outcome in new})
        replace(file, (asdict(known[key]) for key in sorted(known)))
