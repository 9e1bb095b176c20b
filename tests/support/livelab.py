# SPDX-License-Identifier: BSD-3-Clause
"""A served target that commands change: its configuration, its hosts, and commands."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nvmf.cli.main import main
from nvmf.initiator import Controller
from support.served import Served

HANG = 120
"""Seconds after which a wait counts as a hang."""
A, B = "nqn.2026-11.io.example:a", "nqn.2026-11.io.example:b"
H1, H2 = "nqn.2026-11.io.example:h1", "nqn.2026-11.io.example:h2"


def config(*, a: str = "", b: str = "", more: str = "") -> str:
    """Return two subsystems with a RAM namespace each, and the additions."""
    space = '[[subsystem.namespace]]\nnsid = 1\nstore = "ram"\nsize = "4MiB"\n'
    text = '[[port]]\ntrsvcid = 0\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{A}"\nallow_any_host = true\n{space}{a}'
    return text + f'[[subsystem]]\nnqn = "{B}"\nhosts = ["{H1}", "{H2}"]\n{space}{b}{more}'


def run(served: Served, *args: object, status: int = 0) -> Any:
    """Run a `nvmeof target` command with -o json; return its output, or its error message."""
    out, err = io.StringIO(), io.StringIO()
    words = ["target", *(str(arg) for arg in args), "--rpc-socket", str(served.rpc_socket)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = main([*words, "-o", "json"])
    assert found == status, err.getvalue()
    return json.loads(out.getvalue()) if not status else err.getvalue()


async def command(served: Served, *args: object, status: int = 0) -> Any:
    return await asyncio.to_thread(run, served, *args, status=status)


@asynccontextmanager
async def busy(controller: Controller) -> AsyncIterator[None]:
    """The first namespace is written and verified all the time, without an error."""
    ended, rounds = asyncio.Event(), 0

    async def load() -> None:
        nonlocal rounds
        disk = controller.namespace(1)
        while not ended.is_set():
            data = bytes([rounds % 251]) * 4096
            await disk.write(8 * (rounds % 32), data)
            assert await disk.read(8 * (rounds % 32), 8) == data
            rounds += 1

    task = asyncio.create_task(load())
    try:
        yield
    finally:
        ended.set()
        await asyncio.wait_for(task, HANG)
    assert rounds
