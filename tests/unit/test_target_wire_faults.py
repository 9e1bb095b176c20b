# SPDX-License-Identifier: BSD-3-Clause
"""Faults on the wire of a running target, by host, queue and namespace, over real sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nvmf.config import ConfigError, loads
from nvmf.config.wirefaults import PortWireFault
from nvmf.initiator import Controller, connect
from nvmf.relay.owner import FpduOwner, PacketOwner
from nvmf.rpc.results import Fault
from nvmf.target.change.edit import EditError
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.methods import METHODS
from nvmf.target.service.administration import Administration
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support.clientlab import NQN, OPTIONS
from support.serverlab import until

HOST = "nqn.2026-01.example:wire"
OTHER = "nqn.2026-01.example:other"
DEVICES = pytest.mark.parametrize("device", ["iwarp", "roce"])
TEXT = """
[target]
allow_faults = {allowed}
[[port]]
trsvcid = 0
device = "{device}"
wire_faults = true
traddr = "{traddr}"
[[subsystem]]
nqn = "{nqn}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""


@asynccontextmanager
async def serving(device: str) -> AsyncIterator[Server]:
    address = f"127.{random.randint(64, 120)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
    traddr = address if device == "roce" else "127.0.0.1"
    text = TEXT.format(device=device, allowed="true", traddr=traddr, nqn=NQN)
    server = await serve(loads(text))
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def connected(server: Server, **options: Any) -> AsyncIterator[Controller]:
    host, port = server.ports[0].address
    options = {**OPTIONS, "device": server.ports[0].device, "hostnqn": HOST, **options}
    async with connect(f"nvme+rdma://{host}:{port}/{NQN}", **options) as controller:
        assert isinstance(controller, Controller)
        yield controller


async def call(server: Server, name: str, **params: Any) -> Any:
    return await METHODS[name].call(Administration(server), params)


async def add(server: Server, kind: str, **values: Any) -> int:
    made: Fault = await call(server, "target_add_fault", fault={"kind": f"wire-{kind}", **values})
    return made["id"]


async def remove(server: Server, number: int) -> int:
    """End a fault; return its hits."""
    ended: Fault = await call(server, "target_remove_fault", id=number)
    return ended["hits"]


@DEVICES
async def test_hosts_and_ports_have_their_own_addresses(device: str) -> None:
    """Hosts and ports are shown with their own addresses, not those of the relay."""
    async with serving(device) as server, connected(server) as controller:
        await controller.namespace(1).write(0, b"\x01" * 65536)
        assert await controller.namespace(1).read(0, 128) == b"\x01" * 65536
        queues = [connection.queue for connection in server.open_connections()]
        assert {queue.qid for queue in queues} == {0, 1}
        assert {queue.local for queue in queues} == {server.ports[0].address}
        peers = {queue.peer[0] for queue in queues}
        assert device == "roce" or peers == {"127.0.0.1"}
        assert len(peers) == 1


@DEVICES
async def test_the_conditions_of_a_fault(device: str) -> None:
    """Frames are delayed by a microsecond, so that hits count them, and nothing else happens."""
    async with serving(device) as server, connected(server) as controller:
        port = server.ports[0].address[1]
        for conditions, first, second in (
            ({}, True, True),
            ({"host": HOST}, True, True),
            ({"host": OTHER}, False, False),
            ({"subsystem": NQN, "trsvcid": port}, True, True),
            ({"subsystem": OTHER}, False, False),
            ({"queue": 1}, True, True),
            ({"queue": 2}, False, False),
            ({"nsid": 1, "host": HOST}, True, False),
            ({"nsid": 2, "queue": 1}, False, True),
        ):
            for nsid, concerned in ((1, first), (2, second)):
                number = await add(server, "delay", delay_us=1, **conditions)
                disk = controller.namespace(nsid)
                await disk.write(0, bytes([nsid]) * 65536)
                assert await disk.read(0, 128) == bytes([nsid]) * 65536
                hits = await remove(server, number)
                # the commands, their responses, and their data
                assert (hits >= 6) == concerned, (conditions, nsid, hits)


@DEVICES
@pytest.mark.parametrize("way", ["to-target", "to-host"])
async def test_one_queue_stalls_and_the_other_does_not(device: str, way: str) -> None:
    async with serving(device) as server, connected(server) as controller:
        disk = controller.namespace(1)
        await disk.write(0, b"\x01" * 512)
        number = await add(server, "stall", queue=1, direction=way, host=HOST)
        read = asyncio.create_task(disk.read(0, 1))
        await until(lambda: server.injections.listed()[-1].hits > 0)
        await controller.identify_data(1)
        assert not read.done()
        assert await remove(server, number) >= 1
        assert await read == b"\x01" * 512
        assert controller.reconnects == 0


async def test_a_cut_ends_after_its_count() -> None:
    async with (
        serving("iwarp") as server,
        connected(server, reconnect_delay=0.2, ctrl_loss_tmo=120.0) as controller,
    ):
        await add(server, "cut", queue=1, count=1, direction="to-target")
        assert await controller.namespace(1).read(0, 1) == bytes(512)
        assert controller.reconnects >= 1
        await until(lambda: not server.injections.active())
        (found,) = await call(server, "target_get_faults")
        assert (found["hits"], found["ended"]) == (1, "its count is reached")
        assert found["summary"] == "on the wire: connections are reset, to the target, queue 1"
        assert server.injections.hits() == {"wire-cut": 1}


async def test_a_half_open_connection_of_one_host() -> None:
    async with (
        serving("iwarp") as server,
        connected(server, io_timeout=2.0, reconnect_delay=0.2, ctrl_loss_tmo=120.0) as controller,
        connected(server, hostnqn=OTHER) as other,
    ):
        await add(server, "half-open", host=HOST, seconds=0.5)
        assert await other.namespace(1).read(0, 1) == bytes(512)
        assert await controller.namespace(1).read(0, 1) == bytes(512)
        assert controller.reconnects >= 1
        assert other.reconnects == 0


async def test_packets_are_lost_and_sent_again() -> None:
    async with serving("roce") as server, connected(server) as controller:
        number = await add(server, "drop", rate=0.05, seed=3, count=20)
        for n in range(8):
            await controller.namespace(1).write(0, bytes([n]) * 65536)
            assert await controller.namespace(1).read(0, 128) == bytes([n]) * 65536
        await until(lambda: server.injections.listed()[-1].hits >= 1)
        assert number == 1
        assert controller.reconnects == 0


async def test_a_port_without_a_relay_has_no_faults_on_the_wire() -> None:
    text = TEXT.format(device="iwarp", allowed="true", traddr="127.0.0.1", nqn=NQN)
    server = await serve(loads(text.replace("wire_faults = true", "")))
    try:
        with pytest.raises(ServerError, match="needs a port with wire_faults = true"):
            await add(server, "drop")
        port = {"traddr": "127.0.0.1", "trsvcid": 0, "device": "iwarp", "wire_faults": True}
        opened = await call(server, "target_add_port", port=port)
        assert await remove(server, await add(server, "drop", trsvcid=int(opened["trsvcid"]))) == 0
        await call(server, "target_remove_port", traddr="127.0.0.1", trsvcid=int(opened["trsvcid"]))
        with pytest.raises(ServerError, match="needs a port"):
            await add(server, "drop")
    finally:
        await server.stop()


async def test_a_wrong_rate_is_told_the_limit() -> None:
    async with serving("iwarp") as server:
        with pytest.raises(EditError, match="rate: expected a number of at most 1"):
            await add(server, "drop", rate=2)


async def test_roce_has_no_reset() -> None:
    async with serving("roce") as server:
        with pytest.raises(ServerError, match="use wire-half-open"):
            await add(server, "cut")


async def test_an_address_in_use_is_a_sentence() -> None:
    async with serving("iwarp") as server:
        port = str(server.ports[0].address[1])
        text = TEXT.format(device="iwarp", allowed="true", traddr="127.0.0.1", nqn=NQN)
        with pytest.raises(ServerError, match=r"with a relay: Address already in use$"):
            await serve(loads(text.replace("trsvcid = 0", f"trsvcid = {port}")))


@pytest.mark.parametrize(
    ("device", "traddr", "complaint"),
    [
        ("system", "127.0.0.1", "wire_faults requires device"),
        ("roce", "::1", "requires an IPv4 traddr"),
    ],
)
def test_impossible_ports(device: str, traddr: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        loads(TEXT.format(device=device, allowed="true", traddr=traddr, nqn=NQN))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"kind": "wire-stall", "rate": 0.5}, "stall concerns connections: it has no rate"),
        ({"kind": "wire-stall", "nsid": 1}, "stall concerns connections: it has no nsid"),
        ({"kind": "wire-drop", "status": "Write Fault"}, "Extra inputs"),
        ({"kind": "wire-delay"}, "needs delay_us or bandwidth"),
    ],
)
def test_impossible_faults(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PortWireFault.model_validate(values)


def test_frames_of_anything_have_an_owner() -> None:
    """The relay does not fail, whatever a host sends."""
    some = random.Random(5)
    fpdus, packets = FpduOwner(None), PacketOwner(None)
    for number in range(20_000):
        frame = bytearray(some.randbytes(some.randrange(120)))
        if number % 2 and len(frame) > 8:
            frame[5:8] = (1).to_bytes(3)
        for way in ("to-target", "to-host"):
            fpdus.see(bytes(frame), way, fpdu=number % 7 > 0)
            packets.see(bytes(frame), way)
