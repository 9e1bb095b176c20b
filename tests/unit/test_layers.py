# SPDX-License-Identifier: BSD-3-Clause
"""No file of the embedded device includes or calls anything in a layer after its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "nvmeof" / "nvmf" / "engine" / "c" / "iwarp"
BUILD = Path(os.environ.get("NVMF_BUILD_DIR", ROOT / "build" / "dev"))
OBJECTS = BUILD / "CMakeFiles" / "nvmf_engine.dir" / FOLDER.relative_to(ROOT)

SUMMARY = "iwarp.h"
"""It has the list of layers, and includes all of them for tests."""

FOREIGN = re.compile(r"util/\w+\.h|capture/capture\.h|verbs\.h")
"""Headers that any file may include in addition to the folder's own."""


def layers() -> dict[str, int]:
    """Return the position of each file's layer, by the file's stem."""
    rows = re.findall(r"^ \*   (?:\w+ )?\w+ {2,}(\w.*)$", (FOLDER / SUMMARY).read_text(), re.M)
    threads = next(i for i, row in enumerate(rows) if row == "table")
    found: dict[str, int] = {}
    for position, row in enumerate(rows[: threads + 1]):
        for stem in row.split():
            assert stem not in found, f"{stem} is in two layers"
            found[stem] = position
    return found


def sources() -> list[Path]:
    return [path for path in sorted(FOLDER.glob("*.[ch]")) if path.name != SUMMARY]


def test_every_file_has_a_layer() -> None:
    assert {path.stem for path in sources()} == set(layers())


def test_includes_go_down() -> None:
    position = layers()
    upward = set()
    for path in sources():
        for name in re.findall(r'^#include "(.+)"', path.read_text(), re.M):
            if (FOLDER / name).exists():
                if name == SUMMARY or position[Path(name).stem] > position[path.stem]:
                    upward.add((path.name, name))
            else:
                assert FOREIGN.fullmatch(name), f"{path.name} includes {name}"
    assert not upward


def symbols(path: Path) -> tuple[set[str], set[str]]:
    """Return the symbols that an object defines for others, and those that it requires from
    others.
    """
    listing = subprocess.run(
        ["nm", "--extern-only", "--format=posix", path], capture_output=True, text=True, check=True
    )
    defined: set[str] = set()
    wanted: set[str] = set()
    for line in listing.stdout.splitlines():
        name, kind, *_ = line.split()
        (wanted if kind == "U" else defined).add(name)
    return defined, wanted


def test_calls_go_down() -> None:
    objects = {path: OBJECTS / f"{path.name}.o" for path in sources() if path.suffix == ".c"}
    position = layers()
    known = {path: symbols(built) for path, built in objects.items()}
    home = {name: path for path, (defined, _) in known.items() for name in defined}
    upward = {
        (path.name, name)
        for path, (_, wanted) in known.items()
        for name in wanted & home.keys()
        if position[home[name].stem] > position[path.stem]
    }
    assert not upward
