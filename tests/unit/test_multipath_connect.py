# SPDX-License-Identifier: BSD-3-Clause
"""The client's own multipath: how its paths are found, and which namespaces are identical."""

from __future__ import annotations

import asyncio

import pytest

from nvmf.config import loads
from nvmf.initiator import ConnectError, ConnectionLost, NvmeError, State
from nvmf.initiator.multipath import Path, connect_multipath, find_paths
from nvmf.initiator.sync import connect_multipath as connect_sync
from nvmf.initiator.sync import find_paths as find_sync
from nvmf.spec.ana import AnaState
from support.clientlab import NQN, RAM_4K, serving, url
from support.multipathrig import FAST, STEADY, counts, knows, two_ports, until
from support.relay import relayed

# ---- identity of namespaces ----


def _other(number: int) -> str:
    return f'{RAM_4K}\nuuid = "5f0c1c9e-0000-4000-8000-0000000000a{number}"'


async def test_another_namespace() -> None:
    """Two targets with one NQN and different namespaces are not paths to one subsystem."""
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
    """A new or grown namespace changes on every path; a replaced one is a different namespace."""
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
    """A path that is not reachable yet joins later; if none is reachable, that is the error."""
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


async def test_paths_are_added_at_once() -> None:
    """Each call returns the path that it requested, however long the others take."""
    async with (
        serving(RAM_4K) as (server, where),
        relayed(server.ports[0].address[1]) as relays,
        connect_multipath([where], **STEADY) as subsystem,
    ):
        relays[0].stall()
        first = asyncio.create_task(subsystem.add_path(url(relays[0].port)))
        await until(lambda: len(subsystem.paths) == 2)
        second = await subsystem.add_path(url(relays[1].port))
        relays[0].go_on()
        assert (await first).where.trsvcid == str(relays[0].port)
        assert second.where.trsvcid == str(relays[1].port)


async def test_closed_while_a_path_is_added() -> None:
    """The new path does not stay connected."""
    async with (
        serving(RAM_4K) as (server, where),
        relayed(server.ports[0].address[1]) as (relay, _),
    ):
        subsystem = await connect_multipath([where], **STEADY)
        relay.stall()
        adding = asyncio.create_task(subsystem.add_path(url(relay.port)))
        await until(lambda: len(subsystem.paths) == 2)
        await subsystem.close()
        relay.go_on()
        with pytest.raises(ConnectionLost, match="closed"):
            await adding
        with pytest.raises(ConnectionLost, match="closed"):
            await subsystem.add_path(url(relay.port))
        await until(lambda: server.connections == 0)


async def test_without_asyncio() -> None:
    """The synchronous interface."""

    def script(urls: list[str]) -> list[bytes]:
        found = find_sync(urls[0], device="iwarp")
        with connect_sync(found, policy="round-robin", **STEADY) as subsystem:
            disk = subsystem.namespace(1)
            disk.write(0, b"z" * 4096)
            return [disk.read(0, 1) for _ in range(4)]

    async with two_ports() as lab:
        assert await asyncio.to_thread(script, lab.urls) == [b"z" * 4096] * 4


def test_written_wrongly() -> None:
    """Invalid arguments cause errors that are sentences."""
    one, other = url(4420), url(4421, NQN + "-other")
    for paths, options, sentence in (
        ([], {}, "at least one path"),
        ([one, other], {}, "one subsystem, not to"),
        ([one, one], {}, "given twice"),
        ([one], {"policy": "best"}, "unknown policy 'best'"),
        ([one], {"backend": "kernel"}, "Linux's multipath"),
        (["nvme+rdma://127.0.0.1"], {}, "names the NQN"),
        (one, {}, "a list of URLs"),
    ):
        with pytest.raises(ValueError, match=sentence):
            connect_multipath(paths, **options)  # type: ignore[arg-type]
