# SPDX-License-Identifier: BSD-3-Clause
"""A client whose process has no free descriptor or may start no further thread, for a while."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nvmf.initiator import ConnectionLost, State, connect, connect_all
from nvmf.initiator.multipath import connect_multipath
from support.clientlab import NQN, OPTIONS, RAM_4K, serving, url
from support.multipathrig import until
from support.relay import relayed

FAST: dict[str, Any] = {**OPTIONS, "kato": 0, "reconnect_delay": 0.2}
HANG = 60.0


@contextlib.contextmanager
def no_descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the first descriptor of a connection fail, as the limit of open files does."""

    def eventfd(*_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "eventfd", eventfd)
        yield


async def test_a_path_that_is_connected_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt without a descriptor is one that failed: the next one succeeds."""
    async with serving(RAM_4K) as (server, _), relayed(server.ports[0].address[1]) as relays:
        urls = [url(relay.port) for relay in relays]
        await relays[1].cut()
        async with connect_multipath(urls, **FAST) as subsystem:
            path = subsystem.paths[1]
            with no_descriptors(monkeypatch):
                await until(lambda: "Too many open files" in path.why)
                assert path.why == (
                    f"connecting queue 0 to 127.0.0.1:{relays[1].port}: Too many open files"
                )
            await relays[1].open()
            await until(lambda: path.state is not State.RECONNECTING)
            assert path.state is State.LIVE


async def test_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that cannot be connected again is given up as ctrl_loss_tmo says."""
    async with serving(RAM_4K) as (_, where), connect(where, **FAST, ctrl_loss_tmo=0) as one:
        says = pytest.raises(ConnectionLost, match=r"ctrl_loss_tmo.*Too many open files")
        with no_descriptors(monkeypatch), says:
            await asyncio.wait_for(one.reset(), HANG)


async def test_connect_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subsystem that cannot be connected is an outcome with an error."""
    async with serving(RAM_4K) as (server, _):
        place = f"nvme+rdma://127.0.0.1:{server.ports[0].address[1]}"
        outcomes = connect_all(place, **FAST)
        with no_descriptors(monkeypatch):
            (told,) = [one async for one in outcomes]
        assert "Too many open files" in str(told.error)


@contextlib.contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no thread begin, as a limit of processes does."""

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield


async def test_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of a lost connection end, and later ones succeed when there are threads again."""
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1], 1) as (relay,),
        connect(url(relay.port), **FAST) as controller,
    ):
        disk = controller.namespace(1)
        relay.hold_answers()
        waiting = asyncio.create_task(disk.read(0, 1))
        await asyncio.sleep(0)
        with no_threads(monkeypatch):
            await relay.cut()
            await relay.open()
            await until(lambda: controller.state is not State.LIVE)
            await asyncio.sleep(0.5)
        assert await asyncio.wait_for(waiting, HANG) == bytes(4096)
        assert controller.reconnects == 1


async def test_no_thread_and_no_reconnection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that wait for the end of a queue do not wait forever."""
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1], 1) as (relay,),
        connect(url(relay.port), **FAST, ctrl_loss_tmo=0) as controller,
    ):
        relay.hold_answers()
        waiting = asyncio.create_task(controller.namespace(1).read(0, 1))
        await asyncio.sleep(0)
        with no_threads(monkeypatch):
            await relay.cut()
            with pytest.raises(ConnectionLost, match=NQN):
                await asyncio.wait_for(waiting, HANG)
