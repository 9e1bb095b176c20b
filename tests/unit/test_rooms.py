# SPDX-License-Identifier: BSD-3-Clause
"""Each room of the target imports only itself and the rooms that stand before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target" / "nvmf" / "target"
ROOMS = (
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
)
"""From the bottom up."""
SANS_IO = ("command", "model", "commands")


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of each module that a file imports, for type checking too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} has a relative import"
            assert node.module is not None
            yield node.module
            if node.module == "nvmf.target":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_used(path: Path) -> set[str]:
    names = (name.split(".") for name in imports(path))
    return {parts[2] for parts in names if parts[:2] == ["nvmf", "target"] and len(parts) > 2}


def test_every_module_is_in_a_room() -> None:
    assert {path.name for path in TARGET.iterdir() if path.is_dir()} - {"__pycache__"} == set(ROOMS)
    assert [path.name for path in TARGET.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_down(room: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    files = sorted((TARGET / room).rglob("*.py"))
    assert len(files) > 1
    upward = {(path.name, used) for path in files for used in rooms_used(path) - allowed}
    assert not upward


@pytest.mark.parametrize("room", SANS_IO)
def test_rooms_without_io_use_no_engine(room: str) -> None:
    """Commands are decided without a socket, a reactor or an event loop."""
    barred = ("nvmf.engine", "asyncio", "socket", "threading")
    for path in sorted((TARGET / room).rglob("*.py")):
        found = {name for name in imports(path) if name.startswith(barred)}
        assert not found, f"{room}/{path.name} imports {found}"
