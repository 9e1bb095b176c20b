# SPDX-License-Identifier: BSD-3-Clause
"""Background tasks of the client that fail: the session ends with the reason, and no caller
hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from nvmf.config import loads
from nvmf.initiator import ConnectionLost, State, connect
from nvmf.initiator.client import connection as connection_module
from nvmf.initiator.client.recovery import KeepCommands
from nvmf.target.service.starting import serve
from support.clientlab import NQN, OPTIONS, RAM, config, url

HANG = 60


@pytest_asyncio.fixture
async def where() -> AsyncIterator[str]:
    server = await serve(loads(config(RAM)))
    yield url(server.ports[0].address[1])
    await server.stop()


async def broken(*arguments: Any) -> None:
    await asyncio.sleep(0)
    raise KeyError("a mistake")


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("keep_alive", "Keep Alive failed inside the client: KeyError: 'a mistake'"),
        ("async_events", "the handling of an event failed inside the client: KeyError"),
    ],
)
async def test_upkeep(
    where: str, monkeypatch: pytest.MonkeyPatch, task: str, says: str, caplog: Any
) -> None:
    """The connection is established again, as after any other loss."""
    sound = getattr(connection_module, task)
    monkeypatch.setattr(connection_module, task, broken)
    async with asyncio.timeout(HANG), connect(where, **OPTIONS) as controller:
        monkeypatch.setattr(connection_module, task, sound)
        reason = (await asyncio.shield(controller.session.lost)).reason
        assert says in reason
        assert len(await controller.namespace(1).read(0, 1)) == 512
        assert controller.state is State.LIVE
        assert controller.reconnects == 1
    assert any(says in record.message and record.exc_info for record in caplog.records)


async def test_supervisor(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no reconnection: commands in flight, and all later ones, fail with the reason."""
    monkeypatch.setattr(KeepCommands, "reconnect", broken)
    async with asyncio.timeout(HANG), connect(where, **OPTIONS) as controller:
        controller.session.lose("cut by the test")
        says = "the recovery of the connection failed inside the client: KeyError: 'a mistake'"
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=says):
                await controller.namespace(1).read(0, 1)
        assert controller.state is State.LOST
    assert NQN in where
