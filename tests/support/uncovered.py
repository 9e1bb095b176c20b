# SPDX-License-Identifier: BSD-3-Clause
"""Lines that no test runs: lists in build/coverage, and a summary, at the end of ``./dev
coverage``.

Python's lines are counted by coverage.py, C's by gcc's counters for the objects in build/gcov.  A
line of C that is in several objects (a header's) has run if it did in one of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "coverage"
OBJECTS = ROOT / "build" / "gcov"
SOURCES = ("nvmeof/", "target/", "initiator/", "config/")

Lines = dict[str, dict[int, bool]]
"""For each file, from the root of the tree: whether each of its lines has run."""


def of_python(report: Path = FOLDER / "python.json") -> Lines:
    """Return the lines in coverage.py's report."""
    lines: Lines = {}
    for name, found in json.loads(report.read_text())["files"].items():
        path = (ROOT / name).resolve()
        if path.is_relative_to(ROOT):
            ran = dict.fromkeys(found["executed_lines"], True)
            missed = dict.fromkeys(found["missing_lines"], False)
            lines[path.relative_to(ROOT).as_posix()] = ran | missed
    return lines


def of_c(objects: Path = OBJECTS) -> Lines:
    """Return gcov's lines of every compiled object, whether or not a program ran it."""
    lines: defaultdict[str, dict[int, bool]] = defaultdict(dict)
    notes = sorted(objects.rglob("*.gcno"))
    for start in range(0, len(notes), 50):
        said = subprocess.run(
            ["gcov", "--json-format", "--stdout", *map(str, notes[start : start + 50])],
            cwd=objects,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # gcov's note about an object that no program ran
            check=True,
        )
        for text in said.stdout.splitlines():
            for name, number, count in _counted(json.loads(text)):
                lines[name][number] = lines[name].get(number, False) or count > 0
    return dict(lines)


def _counted(report: dict[str, object]) -> Iterator[tuple[str, int, int]]:
    folder = Path(str(report["current_working_directory"]))
    files = report["files"]
    assert isinstance(files, list)
    for file in files:
        path = (folder / file["file"]).resolve()
        if not path.is_relative_to(ROOT):
            continue
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(SOURCES):
            for line in file["lines"]:
                yield name, line["line_number"], line["count"]


def ranges(numbers: Iterable[int]) -> str:
    """Return line numbers in short form: 3, 7-9."""
    runs = []
    for _, group in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return ", ".join(runs)


def write(title: str, lines: Lines, to: Path) -> str:
    """Write the list of a language's lines; return the summary."""
    listed = []
    for name, known in sorted(lines.items()):
        if missed := [number for number, ran in known.items() if not ran]:
            listed.append(f"{name}: {ranges(missed)}")
    to.write_text("".join(line + "\n" for line in listed))
    rows = [f"{title}: {_share(lines)}; the others are in {to.relative_to(ROOT)}"]
    folders = defaultdict(dict)  # type: defaultdict[str, Lines]
    for name, known in lines.items():
        folders[str(Path(name).parent)][name] = known
    rows += [f"  {_share(found):>28}  {folder}" for folder, found in sorted(folders.items())]
    return "\n".join(rows)


def _share(lines: Lines) -> str:
    every = [ran for known in lines.values() for ran in known.values()]
    return f"{sum(every)} of {len(every)} lines run ({100 * sum(every) / (len(every) or 1):.1f} %)"


def main() -> int:
    print(write("Python", of_python(), FOLDER / "python.txt"))
    print(write("C", of_c(), FOLDER / "c.txt"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
