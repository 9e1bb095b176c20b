# SPDX-License-Identifier: BSD-3-Clause
"""The architecture document names files and functions that exist, and every room."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "nvmeof" / "docs" / "architecture.md"
NAMED = re.findall(r"`([\w./]+\.(?:py|c))`: `(\w+)`", DOCUMENT.read_text())


def test_it_names_some() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_it_is_there(path: str, name: str) -> None:
    text = (ROOT / path).read_text()
    if path.endswith(".c"):
        assert re.search(rf"^[a-z].*\b{name}\(", text, re.MULTILINE)
        return
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)}
    assert name in defined


def test_it_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "nvmeof" / "nvmf").glob("*/__init__.py")}
    table = DOCUMENT.read_text().partition("## Folders")[2].partition("\n## ")[0]
    missing = {name for name in packages if f"`nvmeof/nvmf/{name}`" not in table}
    assert not missing


@pytest.mark.parametrize("package", ["target", "initiator"])
def test_it_names_every_room(package: str) -> None:
    folders = {path.parent.name for path in (ROOT / package / "nvmf" / package).glob("*/*.py")}
    table = DOCUMENT.read_text().partition("## A write")[0]
    missing = {room for room in folders if f"`{room}`" not in table}
    assert not missing
