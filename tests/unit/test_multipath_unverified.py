# SPDX-License-Identifier: BSD-3-Clause
"""No command goes to a namespace that was not yet compared with that of the other paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nvmf.config import loads
from nvmf.initiator import ConnectionLost, NvmeError, State, connect
from nvmf.initiator.client.session import Session
from nvmf.initiator.multipath import MultipathNamespace, connect_multipath
from nvmf.initiator.multipath.analog import read_ana
from nvmf.spec.ana import AnaGroup
from support.clientlab import OPTIONS, RAM_4K, config, serving, url
from support.multipathrig import STEADY, until
from support.relay import relayed

BLOCKS = 64


def _other(number: int) -> str:
    return f'{RAM_4K}\nuuid = "5f0c1c9e-0000-4000-8000-0000000000a{number}"'


@asynccontextmanager
async def written(namespace: MultipathNamespace) -> AsyncIterator[None]:
    """Write to the namespace all the time."""

    async def write(lba: int) -> None:
        while True:
            await namespace.write(lba, b"w" * 4096)

    tasks = [asyncio.create_task(write(lba)) for lba in range(BLOCKS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


async def test_a_new_path_to_a_different_namespace() -> None:
    """The path is refused, and nothing was written through it."""
    async with (
        serving(_other(1)) as (_, one),
        serving(_other(2)) as (_, two),
        connect_multipath([one], **STEADY, policy="round-robin") as subsystem,
    ):
        async with written(subsystem.namespace(1)):
            for _ in range(5):
                with pytest.raises(ConnectionLost, match="not the one of the other paths"):
                    await subsystem.add_path(two)
        async with connect(two, **OPTIONS) as other:
            assert await other.namespace(1).read(0, BLOCKS) == bytes(BLOCKS * 4096)


async def test_a_namespace_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the ANA states of a replaced namespace are read as well, no command uses it."""
    go_on = asyncio.Event()

    async def slow(session: Session) -> list[AnaGroup]:
        await go_on.wait()
        return await read_ana(session)

    async with (
        serving(_other(1)) as (server, where),
        connect_multipath([where], **STEADY) as subsystem,
    ):
        head, path = subsystem.namespace(1), subsystem.paths[0]
        await head.write(0, b"1" * 4096)
        monkeypatch.setattr("nvmf.initiator.multipath.ana.read_ana", slow)
        await server.apply(loads(config(_other(2))))
        assert path.controller is not None
        roster, before = path.controller.roster, path.controller.namespace(1)
        await until(lambda: roster.active.get(1, before) is not before)
        writing = asyncio.create_task(head.write(0, b"2" * 4096))
        await asyncio.wait([writing], timeout=0.5)
        go_on.set()
        with pytest.raises(NvmeError, match="Invalid Namespace"):
            await writing
        assert await subsystem.namespace(1).read(0, 1) == bytes(4096)


async def test_a_namespace_is_replaced_after_a_path_was_given_up() -> None:
    """The paths that are left have the new namespace; the given up one is as it was."""
    options = {**STEADY, "ctrl_loss_tmo": 0}
    async with (
        serving(_other(1)) as (server, _),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath([url(relay.port) for relay in relays], **options) as subsystem,
    ):
        await relays[0].cut()
        await until(lambda: subsystem.paths[0].state is State.LOST)
        first = subsystem.namespace(1)
        await first.flush()
        await server.apply(loads(config(_other(2))))
        await until(lambda: subsystem.namespace(1) is not first)
        await subsystem.namespace(1).write(0, bytes(4096))
        with pytest.raises(NvmeError, match="Invalid Namespace"):
            await first.flush()
