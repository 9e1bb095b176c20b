# SPDX-License-Identifier: BSD-3-Clause
"""What the last runs showed: ``build/lab/results.json``, merged over runs.

One entry for every test of every cell on every kernel: its outcome, the kernel's release and the
day.  ``./dev lab --readme`` writes the README's table of peers from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.prepare import ROOT

FILE = ROOT / "build" / "lab" / "results.json"


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

    @property
    def key(self) -> tuple[str, ...]:
        """What a later run replaces."""
        return (self.kernel, self.target, self.host, self.device, self.test)


def read(file: Path = FILE) -> list[Outcome]:
    """What there is; nothing where no run has been."""
    try:
        return [Outcome(**entry) for entry in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return []


def merge(new: Iterable[Outcome], file: Path = FILE) -> None:
    """Add outcomes to the file, in the place of those they repeat; another run may do so too."""
    known = {outcome.key: outcome for outcome in read(file)}
    known.update({outcome.key: outcome for outcome in new})
    file.parent.mkdir(parents=True, exist_ok=True)
    entries = [asdict(known[key]) for key in sorted(known)]
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(entries, indent=1) + "\n")
    draft.replace(file)
