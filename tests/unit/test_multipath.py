# SPDX-License-Identifier: BSD-3-Clause
"""The client's own multipath: two ports of one target, and what becomes of commands."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from clientlab import NQN, OPTIONS, RAM_4K, serving, url
from nvmf.config import loads
from nvmf.initiator import ConnectError, ConnectionLost, NvmeError, State
from nvmf.initiator.multipath import (
    MultipathNamespace,
    Path,
    Policy,
    Subsystem,
    connect_multipath,
    find_paths,
)
from nvmf.initiator.multipath.policy import chooser, usable
from nvmf.initiator.sync import connect_multipath as connect_sync
from nvmf.initiator.sync import find_paths as find_sync
from nvmf.spec.ana import AnaState
from nvmf.spec.status import DNR, Status
from nvmf.target.edit import add_port, find_port, remove_port, set_ana
from nvmf.target.gates import Gate, GateReason
from nvmf.target.server import Server
from relay import free_ports, relayed

STEADY: dict[str, Any] = {**OPTIONS, "kato": 0}
"""Nobody gives up a machine that stands still for a while."""
FAST: dict[str, Any] = {**STEADY, "reconnect_delay": 0.2}
HANG = 120.0
"""Seconds until a wait is a hang."""


@dataclass
class Lab:
    """A target in this process with two ports."""

    server: Server
    services: list[int]

    @property
    def urls(self) -> list[str]:
        return [url(service) for service in self.services]

    async def ana(self, index: int, state: str, group: int = 1) -> None:
        """What a port does for the namespaces."""
        service = self.services[index]
        await self.server.apply(set_ana(self.server.config, "127.0.0.1", service, group, state))

    async def remove(self, index: int) -> None:
        """Close a port."""
        service = self.services[index]
        await self.server.apply(remove_port(self.server.config, "127.0.0.1", service))

    def refuse(self, index: int, status: int) -> None:
        """Have every I/O command that comes by a port end with a status; 0: they run."""
        (port,) = [p for p in self.server.core.ports if p.trsvcid == self.services[index]]
        for controller in self.server.core.controllers():
            if controller.portid == port.portid:
                controller.gates.set(1, GateReason.MASKED, Gate(status, status, status))


@asynccontextmanager
async def two_ports(*namespaces: str) -> AsyncIterator[Lab]:
    services = free_ports(2)
    text = "[iwarp]\nhandshake_timeout_ms = 60000\n"
    for service in services:
        text += f'[[port]]\ntraddr = "127.0.0.1"\ntrsvcid = {service}\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
    for namespace in namespaces or (RAM_4K,):
        text += f"[[subsystem.namespace]]\n{namespace}\n"
    server = Server(loads(text))
    await server.start()
    try:
        yield Lab(server, services)
    finally:
        await server.stop()


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def counts(subsystem: Subsystem) -> list[int]:
    """Commands that were given to each path."""
    return [path.commands for path in subsystem.paths]


async def knows(subsystem: Subsystem, index: int, state: AnaState) -> None:
    """Wait until the client has heard of an ANA state."""
    path = subsystem.paths[index]
    await until(lambda: path.state is State.LIVE and path.ana(1) is state)


@asynccontextmanager
async def verified_load(namespace: MultipathNamespace) -> AsyncIterator[list[int]]:
    """Writes, flushes and reads of eight at once; at its end all is there.  Yields its progress."""
    blocks: dict[int, bytes] = {}
    progress = [0] * 8
    enough = asyncio.Event()

    async def work(worker: int) -> None:
        while not enough.is_set():
            lba = worker * 100 + progress[worker] % 50 * 2
            data = secrets.token_bytes(8192)
            await namespace.write(lba, data)
            blocks[lba] = data
            await namespace.flush()
            assert await namespace.read(lba, 2) == data
            await namespace.compare(lba, data)
            progress[worker] += 1

    workers = [asyncio.create_task(work(worker)) for worker in range(8)]
    try:
        yield progress
        before = list(progress)
        await until(
            lambda: (
                any(worker.done() for worker in workers)
                or all(now > then for now, then in zip(progress, before, strict=True))
            )
        )
    finally:
        enough.set()
        results = await asyncio.gather(*workers, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    for lba, data in blocks.items():
        assert await namespace.read(lba, 2) == data


# ---- which path ----


@dataclass
class Fake:
    """A path, as a policy sees it."""

    number: int
    outstanding: int = 0


def test_policies() -> None:
    """Optimized before non-optimized, nothing else; then what the policy says."""
    a, b, c = Fake(0, 3), Fake(1, 2), Fake(2, 2)
    good, fair = AnaState.OPTIMIZED, AnaState.NON_OPTIMIZED
    assert usable([(a, fair), (b, good), (c, good)]) == [b, c]
    assert usable([(a, fair), (b, AnaState.CHANGE), (c, fair)]) == [a, c]
    assert usable([(a, AnaState.INACCESSIBLE), (b, AnaState.PERSISTENT_LOSS), (c, None)]) == []
    assert [chooser("numa")([a, b, c], last) for last in (-1, 0, 2)] == [a, a, a]
    assert [chooser("round-robin")([a, b, c], last) for last in (-1, 0, 1, 2)] == [a, b, c, a]
    assert chooser("round-robin")([a, c], 1) is c
    assert chooser("round-robin")([b], 1) is b
    assert chooser("queue-depth")([a, b, c], 1) is b
    with pytest.raises(ValueError, match="numa, round-robin, queue-depth"):
        chooser("fastest")


@pytest.mark.parametrize(
    ("policy", "expected"), [("numa", [16, 0]), ("round-robin", [8, 8]), ("queue-depth", [8, 8])]
)
async def test_shares(policy: Policy, expected: list[int]) -> None:
    """Sixteen commands at once, by the path that each of them took."""
    async with (
        two_ports() as lab,
        connect_multipath(lab.urls, policy=policy, **STEADY) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        await asyncio.gather(*(namespace.read(lba, 1) for lba in range(16)))
        assert counts(subsystem) == expected
        for path, share in zip(subsystem.paths, expected, strict=True):
            assert path.controller is not None
            assert path.controller.session.queues[0].completed == share + 1  # and Connect
        subsystem.policy = "numa"
        await namespace.flush()
        assert counts(subsystem) == [expected[0] + 1, expected[1]]


async def test_long_transfers_are_spread() -> None:
    """The pieces of one transfer go by both paths."""
    async with (
        two_ports() as lab,
        connect_multipath(lab.urls, policy="round-robin", **STEADY) as subsystem,
    ):
        namespace = subsystem.namespace(1)
        data = secrets.token_bytes(2 << 20)
        await namespace.write(3, data)
        assert counts(subsystem) == [4, 4]
        into = bytearray(len(data))
        assert await namespace.readinto(3, into) == len(data)
        assert into == data
        with pytest.raises(NvmeError, match="LBA Out of Range"):
            await namespace.write(namespace.blocks - 256, data)
        assert await namespace.read(namespace.blocks - 256, 256) == bytes(1 << 20)
        with subsystem.alloc(8192) as memory:
            memoryview(memory)[:] = data[:8192]
            await namespace.write(0, memory)
        await namespace.compare(0, data[:8192])
        with pytest.raises(NvmeError, match="Compare Failure"):
            await namespace.compare(0, bytes(8192))
        await namespace.write_zeroes(0, 2)
        await namespace.verify(0, 2)
        await namespace.deallocate([(0, 1), (1, 1)])
        assert await namespace.read(0, 2) == bytes(8192)
        controller = subsystem.paths[0].controller
        assert controller is not None
        with controller.alloc(4096) as registered, pytest.raises(ValueError, match="one path"):
            await namespace.write(0, registered)


async def test_by_ana_state() -> None:
    """What a target says while hosts are connected counts for the next command."""
    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        namespace = subsystem.namespace(1)
        before = [0, 0]
        for states, chosen in (
            (("optimized", "optimized"), 0),
            (("non-optimized", "optimized"), 1),
            (("non-optimized", "non-optimized"), 0),
            (("inaccessible", "non-optimized"), 1),
            (("optimized", "persistent-loss"), 0),
            (("change", "optimized"), 1),
        ):
            for index, state in enumerate(states):
                await lab.ana(index, state)
                await knows(subsystem, index, AnaState.of(state))
            await namespace.flush()
            before[chosen] += 1
            assert counts(subsystem) == before
        assert [path.failovers for path in subsystem.paths] == [0, 0]


async def test_waits_for_a_state() -> None:
    """While no path may be used, but one is there, commands wait."""
    async with two_ports() as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        for index in range(2):
            await lab.ana(index, "inaccessible")
            await knows(subsystem, index, AnaState.INACCESSIBLE)
        waiting = asyncio.create_task(subsystem.namespace(1).read(0, 1))
        await subsystem.refresh()
        assert not waiting.done()
        await lab.ana(1, "non-optimized")
        assert await waiting == bytes(4096)
        assert counts(subsystem) == [0, 1]


# ---- a path that fails ----


def _reconnecting(path: Path) -> bool:
    return path.state is State.RECONNECTING


async def test_ana_under_load() -> None:
    """Commands that meet a state which the client has not heard of go elsewhere."""
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
    """A port is closed and opened again, in turns: no error, nothing lost."""
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
    """A path ends after so many bytes: what was half written is written whole by the other."""
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
    """A path that keeps silent is given up after io_timeout, and what was on it goes elsewhere."""
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
    """With all paths lost, commands wait until one is back, and then fail once none will be."""
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
    """After ctrl_loss_tmo of the last of them, commands fail with what became of each."""
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
        # An administrator brings one back.
        await relays[0].open()
        await subsystem.remove_path(subsystem.paths[0])
        await subsystem.add_path(url(relays[0].port))
        await namespace.flush()


async def test_path_error() -> None:
    """Another path related status: the other path; by none of them, the error after some tries."""
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
        assert counts(subsystem) == [before[0] + 1, before[1]]  # of the namespace, not the path


async def test_close_under_load() -> None:
    """What is in flight or waits when the subsystem is closed fails; close() is idempotent."""
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


# ---- what is one namespace ----


def _other(number: int) -> str:
    return f'{RAM_4K}\nuuid = "5f0c1c9e-0000-4000-8000-0000000000a{number}"'


async def test_another_namespace() -> None:
    """Two targets of one NQN whose namespaces are not the same are no paths to one."""
    async with serving(_other(1)) as (_, one), serving(_other(2)) as (_, two):
        with pytest.raises(
            ConnectionLost, match=r"namespace 1 of .* is not the one of the other paths: its \w+ is"
        ):
            await connect_multipath([one, two], **STEADY)
        async with connect_multipath([one], **STEADY) as subsystem:
            with pytest.raises(ConnectionLost, match="not the one"):
                await subsystem.add_path(two)
            assert len(subsystem.paths) == 1
            await subsystem.namespace(1).flush()


async def test_namespaces_change() -> None:
    """One that comes or grows does so by every path; one that is replaced is another."""
    async with two_ports(_other(1)) as lab, connect_multipath(lab.urls, **STEADY) as subsystem:
        first = subsystem.namespace(1)
        nsid = first.nsid
        nguid = first.identity

        def text(*namespaces: str) -> str:
            made = "[iwarp]\nhandshake_timeout_ms = 60000\n"
            for service in lab.services:
                made += f'[[port]]\ntraddr = "127.0.0.1"\ntrsvcid = {service}\ndevice = "iwarp"\n'
            made += f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
            return made + "".join(f"[[subsystem.namespace]]\n{one}\n" for one in namespaces)

        await lab.server.apply(loads(text(_other(1), _other(2))))
        await until(lambda: all(len(path.namespaces) == 2 for path in subsystem.paths))
        await subsystem.namespace(2).flush()
        assert subsystem.namespace(1) is first
        await lab.server.apply(loads(text(_other(3), _other(2))))
        await until(
            lambda: (
                subsystem.namespaces[0].nsid == nsid
                and subsystem.namespaces[0].identity != nguid
                and all(path.namespace(1) is not None for path in subsystem.paths)
            )
        )
        await subsystem.namespace(1).flush()
        with pytest.raises(NvmeError, match="Invalid Namespace"):
            await first.flush()
        with pytest.raises(NvmeError, match="Invalid Namespace"):
            subsystem.namespace(3)


# ---- connecting ----


async def test_begins_with_one_path() -> None:
    """A path that cannot be reached yet joins later; where none can, that is the error."""
    async with serving(RAM_4K) as (server, _), relayed(server.ports[0].address[1]) as relays:
        urls = [url(relay.port) for relay in relays]
        await relays[0].cut()
        async with connect_multipath(urls, **FAST) as subsystem:
            path: Path = subsystem.paths[0]
            assert (path.state, path.controller) == (State.RECONNECTING, None)
            await subsystem.namespace(1).flush()
            assert counts(subsystem) == [0, 1]
            await relays[0].open()
            await knows(subsystem, 0, AnaState.OPTIMIZED)
            await subsystem.namespace(1).flush()
            assert counts(subsystem) == [1, 1]
        for relay in relays:
            await relay.cut()
        with pytest.raises(ConnectError):
            await connect_multipath(urls, **FAST)


async def test_found_by_discovery() -> None:
    """One URL leads to all ports of its subsystem."""
    async with two_ports() as lab:
        found = await find_paths(lab.urls[1], device="iwarp")
        assert [place.trsvcid for place in found] == [
            str(service) for service in lab.services[::-1]
        ]
        named = await find_paths(lab.urls[0].replace("127.0.0.1", "localhost"), device="iwarp")
        assert [place.traddr for place in named] == ["localhost", "127.0.0.1"]
        async with connect_multipath(found, **STEADY) as subsystem:
            assert subsystem.queues == 2
            assert (subsystem.device, subsystem.identify.nn) == ("iwarp", subsystem.identify.mnan)
            assert len(await subsystem.log_page(2, 512)) == 512
            await subsystem.set_features(0x0B, await subsystem.get_features(0x0B))
        with pytest.raises(ConnectionLost, match=r"discovery log .* has no"):
            await find_paths(lab.urls[0] + "-absent", device="iwarp")


async def test_without_asyncio() -> None:
    """The synchronous face."""

    def script(urls: list[str]) -> list[bytes]:
        found = find_sync(urls[0], device="iwarp")
        with connect_sync(found, policy="round-robin", **STEADY) as subsystem:
            disk = subsystem.namespace(1)
            disk.write(0, b"z" * 4096)
            return [disk.read(0, 1) for _ in range(4)]

    async with two_ports() as lab:
        assert await asyncio.to_thread(script, lab.urls) == [b"z" * 4096] * 4


def test_written_wrongly() -> None:
    """Sentences."""
    one, other = url(4420), url(4421, NQN + "-other")
    for paths, options, sentence in (
        ([], {}, "one path at least"),
        ([one, other], {}, "one subsystem, not to"),
        ([one, one], {}, "given twice"),
        ([one], {"policy": "best"}, "no policy 'best'"),
        ([one], {"backend": "kernel"}, "Linux's own multipath"),
        (["nvme+rdma://127.0.0.1"], {}, "names the NQN"),
        (one, {}, "a list of URLs"),
    ):
        with pytest.raises(ValueError, match=sentence):
            connect_multipath(paths, **options)  # type: ignore[arg-type]
