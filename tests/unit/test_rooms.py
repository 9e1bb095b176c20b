# SPDX-License-Identifier: BSD-3-Clause
"""Each room of the target and of the initiator imports only itself and the rooms before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "target": (
        "command",
        "lasting",
        "model",
        "commands",
        "io",
        "change",
        "metrics",
        "service",
        "rpc",
        "logs",
    ),
    "initiator": (
        "base",
        "hostfiles",
        "kernel",
        "client",
        "discovery",
        "multipath",
        "connecting",
        "sync",
    ),
}
"""From the bottom up."""
INTERFACES = {"target": {"__init__.py", "client.py", "sync.py"}, "initiator": {"__init__.py"}}
"""Modules that are in no room: rooms do not import them."""
EACH = [(package, room) for package, rooms in ROOMS.items() for room in rooms]
SANS_IO = ("nvmf.engine", "asyncio", "socket", "threading")
BARRED = {
    ("target", "command"): SANS_IO,
    ("target", "model"): SANS_IO,
    ("target", "commands"): SANS_IO,
    ("initiator", "hostfiles"): SANS_IO,
    ("initiator", "kernel"): ("nvmf.engine",),
}
"""Decisions about commands need no socket, reactor or event loop; Linux connects without the
engine.
"""


def folder(package: str) -> Path:
    return ROOT / package / "nvmf" / package


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of each module that a file imports, also for type checking only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} has a relative import"
            assert node.module is not None
            yield node.module
            if node.module in [f"nvmf.{package}" for package in ROOMS]:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_used(path: Path, package: str) -> set[str]:
    names = (name.split(".") for name in imports(path))
    return {parts[2] for parts in names if parts[:2] == ["nvmf", package] and len(parts) > 2}


@pytest.mark.parametrize("package", ROOMS)
def test_every_module_is_in_a_room(package: str) -> None:
    folders = {path.name for path in folder(package).iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(ROOMS[package])
    assert {path.name for path in folder(package).glob("*.py")} == INTERFACES[package]


@pytest.mark.parametrize(("package", "room"), EACH)
def test_imports_go_down(package: str, room: str) -> None:
    rooms = ROOMS[package]
    allowed = set(rooms[: rooms.index(room) + 1])
    files = sorted((folder(package) / room).rglob("*.py"))
    assert len(files) > 1
    upward = {(path.name, used) for path in files for used in rooms_used(path, package) - allowed}
    assert not upward


@pytest.mark.parametrize(("package", "room"), BARRED)
def test_what_a_room_has_no_use_of(package: str, room: str) -> None:
    barred = BARRED[package, room]
    for path in sorted((folder(package) / room).rglob("*.py")):
        found = {name for name in imports(path) if name.startswith(barred)}
        assert not found, f"{room}/{path.name} imports {found}"
