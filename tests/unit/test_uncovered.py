# SPDX-License-Identifier: BSD-3-Clause
"""The lists of lines that no test runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from support import uncovered


def test_ranges() -> None:
    assert uncovered.ranges([9, 3, 8, 7]) == "3, 7-9"
    assert uncovered.ranges([]) == ""


def test_python(tmp_path: Path) -> None:
    file = "target/nvmf/target/a.py"
    found = {"executed_lines": [1, 2], "missing_lines": [4]}
    report = tmp_path / "python.json"
    report.write_text(json.dumps({"files": {file: found, "/usr/lib/else.py": found}}))
    assert uncovered.of_python(report) == {file: {1: True, 2: True, 4: False}}


def test_lists_and_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncovered, "ROOT", tmp_path)
    lines = {"target/a.c": {1: True, 2: False, 3: False}, "target/b.c": {1: True}}
    said = uncovered.write("C", lines, tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_text() == "target/a.c: 2-3\n"
    assert said.startswith("C: 2 of 4 lines run (50.0 %); the others are in c.txt")
    assert said.endswith("  target")


def test_header_of_two_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has run if it ran in one of the programs; one of the two was never started."""
    if not shutil.which("gcov"):
        pytest.skip("there is no gcov: it comes with gcc")
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "twice.h").write_text(
        "static int twice(int x)\n{\n\tif (x > 9)\n\t\treturn 0;\n\treturn x + x;\n}\n"
    )
    for name, value in (("one", 1), ("two", 10)):
        (folder / f"{name}.c").write_text(
            f'#include "twice.h"\nint main(void)\n{{\n\treturn twice({value}) == 99;\n}}\n'
        )
        subprocess.run(
            ["gcc", "--coverage", "-O0", f"target/{name}.c", "-o", name], cwd=tmp_path, check=True
        )
    subprocess.run([tmp_path / "one"], cwd=tmp_path, check=True)
    monkeypatch.setattr(uncovered, "ROOT", tmp_path)
    lines = uncovered.of_c(tmp_path)
    assert lines["target/twice.h"] == {1: True, 3: True, 4: False, 5: True}
    assert lines["target/one.c"] == {2: True, 4: True}
    assert lines["target/two.c"] == {2: False, 4: False}
