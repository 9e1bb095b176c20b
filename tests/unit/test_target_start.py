# SPDX-License-Identifier: BSD-3-Clause
"""Starts of the server: failures, completeness of its objects, and the device that it selects."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from nvmf.target.io.stores import ServerError
from support.fakeengine import in_use
from support.faketarget import NQN
from support.serverlab import TEXT, Lab

TARGET = Path(__file__).resolve().parents[2] / "target" / "nvmf" / "target"


def assigned(function: ast.AST) -> set[str]:
    """Return the attributes of self to which a method assigns."""
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def late(kind: ast.ClassDef) -> set[str]:
    """Return the attributes that do not exist when an object of a class is new."""
    methods = [one for one in kind.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    early = {
        one.target.id
        for one in kind.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    for method in methods:
        if method.name == "__init__":
            early |= assigned(method)
    return set().union(*(assigned(method) for method in methods)) - early


def test_no_attribute_appears_after_the_start() -> None:
    """An object of the target has all of its attributes from its creation on."""
    found = {
        f"{path.stem}: {node.name}": late(node)
        for path in sorted(TARGET.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and late(node)
    }
    assert not found


async def fails(lab: Lab) -> str:
    with pytest.raises(ServerError) as caught:
        await lab.start()
    assert lab.engine.target.closed
    assert all(store.closed for store in lab.engine.stores)
    return str(caught.value)


async def test_a_store_that_cannot_be_opened() -> None:
    lab = Lab()
    lab.engine.store_error = OSError(2, "no such file")
    assert await fails(lab) == f"namespace 1 of {NQN}: cannot open the ram store: no such file"


async def test_a_port_in_use() -> None:
    lab = Lab()
    lab.engine.listen_errors["iwarp"] = in_use()
    said = await fails(lab)
    assert said == "cannot listen on 127.0.0.1:0: in use"


async def test_a_system_without_devices() -> None:
    lab = Lab(TEXT.replace('device = "iwarp"', 'device = "system"'))
    said = await fails(lab)
    assert "with the system device: there is no RDMA device" in said
    assert 'device = "iwarp"' in said


@pytest.mark.parametrize(
    ("devices", "error", "device"),
    [
        ([], None, "iwarp"),
        ([{"name": "rxe0"}], None, "system"),
        ([{"name": "rxe0"}], OSError(19, "no such device"), "iwarp"),
    ],
)
async def test_auto_takes_what_routes(
    devices: list[dict[str, Any]], error: OSError | None, device: str
) -> None:
    lab = Lab(TEXT.replace('device = "iwarp"', 'device = "auto"'))
    lab.engine.system_devices = devices
    if error is not None:
        lab.engine.listen_errors["system"] = error
    async with lab:
        assert lab.said[0].device == device
