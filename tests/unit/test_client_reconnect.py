# SPDX-License-Identifier: BSD-3-Clause
"""Reconnects need no buffers, threads or time of other work."""

from __future__ import annotations

import asyncio

import pytest

from nvmf.initiator import ConnectionLost, State, connect
from nvmf.initiator.client import connection
from nvmf.initiator.client.buffers import SIZES
from nvmf.initiator.client.session import Place, Session
from support.clientlab import OPTIONS, RAM, serving
from support.served import TIMEOUT

COMMANDS = 2 * SIZES[0][1]


@pytest.mark.parametrize("reset", [False, True])
async def test_more_commands_than_buffers(reset: bool) -> None:
    """Commands that wait for the reconnect have every buffer of their size."""
    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        reads = [asyncio.create_task(disk.read(lba, 1)) for lba in range(COMMANDS)]
        await asyncio.sleep(0)  # each has a buffer, or waits for one
        assert controller._pool.take_now(512) is None
        async with asyncio.timeout(TIMEOUT):
            if reset:
                await controller.reset()
            else:
                controller.session.lose("cut by the test")
            assert await asyncio.gather(*reads) == [bytes(512)] * COMMANDS
        assert controller.reconnects == 1


async def test_an_attempt_that_hangs_ends_with_ctrl_loss_tmo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hung = asyncio.Event()

    async def hangs(place: Place) -> Session:
        hung.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(connection, "new_session", hangs)
    options = {**OPTIONS, "ctrl_loss_tmo": 0.5, "reconnect_delay": 0.01}
    async with serving(RAM) as (_, where), connect(where, **options) as controller:
        controller.session.lose("cut by the test")
        async with asyncio.timeout(TIMEOUT):
            with pytest.raises(ConnectionLost, match=r"ctrl_loss_tmo.: an attempt was in progress"):
                await controller.namespace(1).read(0, 1)
        assert hung.is_set()
        assert controller.state is State.LOST
