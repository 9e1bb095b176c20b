# SPDX-License-Identifier: BSD-3-Clause
"""No file of an embedded device includes or calls anything in a layer after its own."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "nvmeof" / "nvmf" / "engine" / "c"
BUILD = Path(os.environ.get("NVMF_BUILD_DIR", ROOT / "build" / "dev"))


@dataclass(frozen=True)
class Device:
    """A folder with an embedded device."""

    name: str
    foreign: re.Pattern[str]
    """Headers that any file may include in addition to the folder's own."""

    @property
    def folder(self) -> Path:
        return ENGINE / self.name

    @property
    def summary(self) -> str:
        """The header with the list of layers; it includes all of them for tests."""
        return f"{self.name}.h"

    @property
    def objects(self) -> Path:
        """The folder with what its files were compiled to."""
        return BUILD / "CMakeFiles" / "nvmf_engine.dir" / self.folder.relative_to(ROOT)

    def layers(self) -> dict[str, int]:
        """Return the position of each file's layer, by the file's stem."""
        text = (self.folder / self.summary).read_text()
        rows = re.findall(r"^ \*   (?:\w+ )?\w+ {2,}(\w.*)$", text, re.M)
        last = next(i for i, row in enumerate(rows) if row == "table")
        found: dict[str, int] = {}
        for position, row in enumerate(rows[: last + 1]):
            for stem in row.split():
                assert stem not in found, f"{stem} is in two layers"
                found[stem] = position
        return found

    def sources(self) -> list[Path]:
        """Return its files, except the summary."""
        return [path for path in sorted(self.folder.glob("*.[ch]")) if path.name != self.summary]


IWARP = Device("iwarp", re.compile(r"util/\w+\.h|capture/capture\.h|verbs\.h"))
# RoCEv2 shares memory, completion queues, shared receives and the helper with iWARP.
ROCE = Device(
    "roce",
    re.compile(
        r"util/\w+\.h|capture/capture\.h|verbs\.h|(?:\.\./iwarp/cm|cq|device_common|events|helper|iwarp|lock|srq|stag|stats|work)\.h"
    ),
)
each_device = pytest.mark.parametrize("device", [IWARP, ROCE], ids=lambda device: device.name)


@each_device
def test_every_file_has_a_layer(device: Device) -> None:
    assert {path.stem for path in device.sources()} == set(device.layers())


@each_device
def test_includes_go_down(device: Device) -> None:
    position = device.layers()
    upward = set()
    for path in device.sources():
        for name in re.findall(r'^#include "(.+)"', path.read_text(), re.M):
            if (device.folder / name).exists() and not name.startswith("../"):
                stem = Path(name).stem
                if name == device.summary or position[stem] > position[path.stem]:
                    upward.add((path.name, name))
            else:
                assert device.foreign.fullmatch(name), f"{path.name} includes {name}"
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


@each_device
def test_calls_go_down(device: Device) -> None:
    built = {path: device.objects / f"{path.name}.o" for path in device.sources()}
    position = device.layers()
    known = {path: symbols(made) for path, made in built.items() if path.suffix == ".c"}
    home = {name: path for path, (defined, _) in known.items() for name in defined}
    upward = {
        (path.name, name)
        for path, (_, wanted) in known.items()
        for name in wanted & home.keys()
        if position[home[name].stem] > position[path.stem]
    }
    assert not upward


def test_iwarp_does_not_call_roce() -> None:
    defined = set().union(*(symbols(made)[0] for made in ROCE.objects.glob("*.o")))
    for made in IWARP.objects.glob("*.o"):
        assert not symbols(made)[1] & defined, made.name
