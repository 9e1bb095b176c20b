# SPDX-License-Identifier: BSD-3-Clause
"""The client's own multipath: paths that fail under load, and the results of their commands."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

import pytest

from nvmf.initiator import ConnectionLost, NvmeError, State
from nvmf.initiator.multipath import Path, Policy, connect_multipath
from nvmf.spec.ana import AnaState
from nvmf.spec.status import DNR, Status
from nvmf.target.change.edit import add_port, find_port
from support.clientlab import NQN, RAM_4K, serving, url
from support.multipathrig import FAST, STEADY, counts, knows, two_ports, until, verified_load
from support.relay import relayed


def _reconnecting(path: Path) -> bool:
    return path.state is State.RECONNECTING


async def test_ana_under_load() -> None:
    """Commands that meet a state unknown to the client are sent on a different path."""
    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        async with verified_load(subsystem.namespace(1)) as progress:
            for round_ in range(6):
                done = sum(progress)
                await lab.ana(round_ % 2, "inaccessible")
                await until(partial(lambda done: sum(progress) >= done + 16, done))
                await lab.ana(round_ % 2, "optimized")
                await knows(subsystem, round_ % 2, AnaState.OPTIMIZED)
        assert min(counts(subsystem)) > 0


@pytest.mark.parametrize("policy", ["numa", "round-robin", "queue-depth"])
async def test_port_removed_under_load(policy: Policy) -> None:
    """The ports are closed and opened again, in turns: no error occurs, and no data is lost."""
    async with (
        two_ports() as lab,
        connect_multipath(lab.urls, policy=policy, **FAST) as subsystem,
        verified_load(subsystem.namespace(1)) as progress,
    ):
        for index in (0, 1, 0):
            path = subsystem.paths[index]
            gone = find_port(lab.server.config, "127.0.0.1", lab.services[index])
            await lab.remove(index)
            await until(partial(_reconnecting, path))
            done = sum(progress)
            await until(partial(lambda done: sum(progress) >= done + 16, done))
            await lab.server.apply(add_port(lab.server.config, gone))
            await knows(subsystem, index, AnaState.OPTIMIZED)


@pytest.mark.parametrize("size", [1, 4000, 100_000])
async def test_cut_within_a_frame(size: int) -> None:
    """A path ends after this many bytes: a write sent in part is completed on the other path."""
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath(
            [url(relay.port) for relay in relays], policy="round-robin", **FAST
        ) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        for number, relay in enumerate([*relays, *relays]):
            data = secrets.token_bytes(512 << 10)
            path = subsystem.paths[number % 2]
            before = path.failovers
            relay.cut_after(size)
            await namespace.write(number * 200, data)
            assert path.failovers > before
            assert await namespace.read(number * 200, 128) == data
            await relay.cut()
            await relay.open()
            await knows(subsystem, number % 2, AnaState.OPTIMIZED)


async def test_stalled_path() -> None:
    """A path that does not answer is ended after io_timeout, and its commands use the other one."""
    options = {**FAST, "io_timeout": 2}
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath([url(relay.port) for relay in relays], **options) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        relays[0].stall()
        await asyncio.gather(*(namespace.write(lba, b"s" * 4096) for lba in range(8)))
        assert subsystem.paths[0].failovers == 8
        assert await namespace.read(0, 8) == b"s" * 32768
        relays[0].go_on()
        await knows(subsystem, 0, AnaState.OPTIMIZED)


async def test_waits_for_the_only_path() -> None:
    """With all paths lost, commands wait until one is back, and fail when none can return."""
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath([url(relay.port) for relay in relays], **FAST) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        await namespace.write(0, b"x" * 4096)
        for relay in relays:
            await relay.cut()
        waiting = [asyncio.create_task(namespace.read(0, 1)) for _ in range(3)]
        await until(lambda: all(path.state is State.RECONNECTING for path in subsystem.paths))
        assert subsystem.state == State.RECONNECTING
        await relays[1].open()
        assert await asyncio.gather(*waiting) == [b"x" * 4096] * 3
        await until(lambda: subsystem.state == State.LIVE)


async def test_all_paths_lost() -> None:
    """ctrl_loss_tmo after the last loss, commands fail with the reason for each path."""
    options = {**STEADY, "ctrl_loss_tmo": 0}
    async with (
        serving(RAM_4K) as (server, _),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath([url(relay.port) for relay in relays], **options) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        await relays[0].cut()
        await until(lambda: subsystem.paths[0].state is State.LOST)
        await namespace.flush()
        await relays[1].cut()
        with pytest.raises(ConnectionLost, match=rf"no path to {NQN} is left: .*; .*ctrl_loss_tmo"):
            await namespace.flush()
        with pytest.raises(ConnectionLost, match="no path"):
            await subsystem.identify_data(1)
        # An administrator adds a path again.
        await relays[0].open()
        await subsystem.remove_path(subsystem.paths[0])
        await subsystem.add_path(url(relays[0].port))
        await namespace.flush()


async def test_path_error() -> None:
    """After a path related error the other path is used; if all fail, the error is reported after
    some attempts.
    """
    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        namespace = subsystem.namespace(1)
        lab.refuse(0, Status.CONTROLLER_PATHING_ERROR)
        await namespace.flush()
        assert counts(subsystem) == [1, 1]
        lab.refuse(1, Status.INTERNAL_PATH_ERROR)
        with pytest.raises(NvmeError, match="Path"):
            await namespace.flush()
        lab.refuse(0, Status.CONTROLLER_PATHING_ERROR | DNR)
        with pytest.raises(NvmeError, match="Controller Pathing Error"):
            await namespace.flush()
        lab.refuse(0, Status.WRITE_FAULT | DNR)
        before = counts(subsystem)
        with pytest.raises(NvmeError, match="Write Fault"):
            await namespace.write(0, bytes(4096))
        assert counts(subsystem) == [before[0] + 1, before[1]]  # not a path error


async def test_close_under_load() -> None:
    """Commands in flight or waiting fail when the subsystem is closed; close() is idempotent."""
    async with two_ports() as lab:
        subsystem = await connect_multipath(lab.urls, **STEADY)
        namespace = subsystem.namespace(1)
        for index in range(2):
            await lab.ana(index, "inaccessible")
            await knows(subsystem, index, AnaState.INACCESSIBLE)
        waiting = asyncio.create_task(namespace.flush())
        await asyncio.sleep(0)
        await asyncio.gather(subsystem.close(), subsystem.close())
        with pytest.raises(ConnectionLost, match="closed"):
            await waiting
        assert subsystem.state is State.CLOSED
        with pytest.raises(ConnectionLost, match="closed"):
            await namespace.flush()
