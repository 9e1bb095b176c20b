# SPDX-License-Identifier: BSD-3-Clause
"""Reconnects need no buffers, threads or time of other work."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from nvmf.initiator import ConnectionLost, Controller, State, connect
from nvmf.initiator.client import connection
from nvmf.initiator.client.buffers import SIZES
from nvmf.initiator.client.session import Place, Session
from support.clientlab import NQN, OPTIONS, RAM, serving
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


async def test_the_default_executor_is_full() -> None:
    ended = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        other = asyncio.create_task(asyncio.to_thread(ended.wait))
        try:
            async with asyncio.timeout(TIMEOUT):
                controller.session.lose("cut by the test")
                assert await controller.namespace(1).read(0, 1) == bytes(512)
        finally:
            ended.set()
            await other


def test_the_loop_ends_during_a_connect() -> None:
    """The connection is given up at once, whichever task asyncio.run() cancels first."""

    async def begin(port: int) -> None:
        where = f"nvme+rdma://127.0.0.1:{port}/{NQN}"
        waits = connect(where, device="iwarp", connect_timeout=2 * TIMEOUT)
        tasks.append(asyncio.ensure_future(waits))
        peer, _ = await asyncio.get_running_loop().sock_accept(listener)
        opened.enter_context(peer)

    tasks: list[asyncio.Future[Controller]] = []
    before = set(threading.enumerate())
    with ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.setblocking(False)
        for _ in range(8):  # the order of the tasks is that of a set
            began = time.monotonic()
            asyncio.run(begin(listener.getsockname()[1]))
            assert time.monotonic() - began < TIMEOUT
        for thread in set(threading.enumerate()) - before:
            thread.join(TIMEOUT)
            assert not thread.is_alive()
