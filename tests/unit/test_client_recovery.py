# SPDX-License-Identifier: BSD-3-Clause
"""The client with a target that dies, returns, stalls, or stays away."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from nvmf.initiator import ConnectionLost, Controller, State, connect
from support.clientlab import NQN, OPTIONS, config, free_port, url
from support.served import Served

Start = Callable[[], Served]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(8 << 20)
    return path


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def start(tmp_path: Path, disk: Path, port: int) -> Iterator[Start]:
    """Start the target, repeatedly on the same port and file."""
    running: list[Served] = []

    def run() -> Served:
        folder = tmp_path / f"run{len(running)}"
        folder.mkdir()
        text = config(f'store = "file"\npath = "{disk}"\nblock_size = 4096', port=port)
        served = Served(folder, text)
        running.append(served)
        return served.wait_ready()

    yield run
    for served in running:
        served.process.send_signal(signal.SIGCONT)
        served.kill()


def _reconnected(controller: Controller, times: int) -> bool:
    return controller.reconnects >= times and controller.state is State.LIVE


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_killed_and_restarted(start: Start, port: int, disk: Path) -> None:
    """Commands wait for the target; no write that was completed and flushed is lost."""
    served = start()
    async with connect(url(port), **{**OPTIONS, "queues": 2}, reconnect_delay=0.2) as controller:
        namespace = controller.namespace(1)
        blocks: dict[int, bytes] = {}
        enough = asyncio.Event()

        async def load(worker: int) -> int:
            rounds = 0
            while not enough.is_set():
                lba = worker * 100 + rounds % 100
                data = secrets.token_bytes(4096)
                await namespace.write(lba, data)
                await namespace.flush()
                blocks[lba] = data
                assert await namespace.read(lba, 1) == data
                rounds += 1
            return rounds

        loads = [asyncio.create_task(load(worker)) for worker in range(8)]
        for _ in range(3):
            blocks.clear()
            await until(lambda: len(blocks) > 8)
            times = controller.reconnects + 1
            served.kill()
            await until(lambda: controller.state is State.RECONNECTING)
            served = await asyncio.to_thread(start)
            await until(partial(_reconnected, controller, times))
        enough.set()
        assert all(await asyncio.gather(*loads))
        assert len(blocks) > 8
        for lba, data in blocks.items():
            assert await namespace.read(lba, 1) == data
    content = await asyncio.to_thread(disk.read_bytes)
    for lba, data in blocks.items():
        assert content[lba * 4096 : (lba + 1) * 4096] == data


async def test_stays_away(start: Start, port: int, caplog: pytest.LogCaptureFixture) -> None:
    """After ctrl_loss_tmo commands fail, with a sentence; later ones fail as well.

    Attempts that fail for the same reason are one line in the log.
    """
    served = start()
    async with connect(url(port), **OPTIONS, reconnect_delay=0.1, ctrl_loss_tmo=3) as controller:
        namespace = controller.namespace(1)
        served.kill()
        with pytest.raises(
            ConnectionLost, match=r"ctrl_loss_tmo\): (connecting .*refused|no attempt)"
        ):
            await namespace.read(0, 1)
        assert controller.state is State.LOST
        with pytest.raises(ConnectionLost, match=NQN):
            await namespace.flush()
    said = [line for line in caplog.messages if "cannot reconnect (attempt" in line]
    reasons = [line.split(" left): ", 1)[1] for line in said]
    assert all(before != after for before, after in pairwise(reasons))


async def test_no_reconnect(start: Start, port: int) -> None:
    """ctrl_loss_tmo = 0: the first loss is the end."""
    served = start()
    async with connect(url(port), **OPTIONS, ctrl_loss_tmo=0) as controller:
        served.kill()
        with pytest.raises(ConnectionLost):
            await controller.namespace(1).read(0, 1)


async def test_io_timeout(start: Start, port: int) -> None:
    """A target that stalls is disconnected after io_timeout; when it continues, so does the
    client.
    """
    served = start()
    async with connect(
        url(port),
        **OPTIONS,
        io_timeout=2,
        reconnect_delay=0.2,
        kato=0,
    ) as controller:
        namespace = controller.namespace(1)
        served.stop()
        reading = asyncio.create_task(namespace.read(0, 8))
        await until(lambda: controller.state is State.RECONNECTING)
        await asyncio.sleep(1)
        assert not reading.done()
        os.kill(served.process.pid, signal.SIGCONT)
        assert await reading == bytes(8 * 4096)


async def test_keep_alive_timeout(start: Start, port: int) -> None:
    """An idle client notices by its Keep Alive that the target does not answer."""
    served = start()
    async with connect(
        url(port), **OPTIONS, kato=2, reconnect_delay=0.2, admin_timeout=5
    ) as controller:
        served.stop()
        await until(lambda: controller.state is State.RECONNECTING)
        os.kill(served.process.pid, signal.SIGCONT)
        await until(lambda: controller.state is State.LIVE)
        assert await controller.namespace(1).read(0, 1) == bytes(4096)


@pytest.mark.feature("keep-alive")
async def test_keep_alive_keeps(start: Start, port: int) -> None:
    """With Keep Alive, a controller outlives several times its KATO.

    Unless the machine stalls for that long: then the test is repeated.
    """
    start()
    async with connect(url(port), **OPTIONS, kato=1, reconnect_delay=0.2) as controller:
        for _ in range(20):
            before = controller.reconnects
            await asyncio.sleep(4)
            if controller.reconnects == before and controller.state is State.LIVE:
                return
    raise AssertionError("the connection never lived for four seconds")


async def test_idle_uses_no_cpu(start: Start, port: int) -> None:
    """An idle client sleeps."""
    start()
    async with connect(url(port), **{**OPTIONS, "queues": 4}) as controller:
        await controller.namespace(1).read(0, 1)
        for _ in range(20):  # a busy machine can only increase it
            before = time.process_time()
            await asyncio.sleep(2)
            used = time.process_time() - before
            if used < 0.05:
                break
        assert used < 0.05


async def test_close_while_reconnecting(start: Start, port: int) -> None:
    """close() ends the attempts, and waiting commands fail."""
    served = start()
    controller: Controller = await connect(url(port), **OPTIONS, reconnect_delay=3600)
    served.kill()
    waiting = asyncio.create_task(controller.namespace(1).read(0, 1))
    await until(lambda: controller.state is State.RECONNECTING)
    await controller.close()
    with pytest.raises(ConnectionLost, match="closed"):
        await waiting
    await controller.close()


async def test_target_ends_in_order(start: Start, port: int) -> None:
    """An idle client notices at once that the target has ended in order."""
    served = start()
    async with connect(url(port), **OPTIONS, reconnect_delay=0.2) as controller:
        assert await asyncio.to_thread(served.end) == 0
        await until(lambda: controller.state is State.RECONNECTING)
        await asyncio.to_thread(start)
        await until(lambda: controller.state is State.LIVE)
        assert await controller.namespace(1).read(0, 1) == bytes(4096)
