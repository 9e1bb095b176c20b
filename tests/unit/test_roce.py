# SPDX-License-Identifier: BSD-3-Clause
"""The embedded RoCEv2 device: our target and our client over UDP, also on a network with loss."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from nvmf.config.models import Config
from nvmf.engine import resources
from nvmf.initiator import ConnectError, connect, connect_all, discover
from nvmf.spec.fabrics import RdmaProvider
from nvmf.target import ServerError, serve
from support.roce import (
    DREQ,
    MANAGEMENT,
    PORT,
    REJ,
    REP,
    REQ,
    RESPONSES,
    Relay,
    endpoint,
    icrc,
    own_address,
)

NQN = "nqn.2026-01.example:disk"
OPTIONS: dict[str, Any] = {"device": "roce", "queues": 1, "connect_timeout": 60.0}


async def exchange(url: str, rounds: int = 1) -> None:
    """Write random data in commands of several sizes, and read it back."""
    async with connect(url, **OPTIONS) as controller:
        disk = controller.namespaces[0]
        for number in range(rounds):
            for size in (512, 4096, 4608, 131072, 1 << 20):
                data = random.Random(size + number).randbytes(size)
                await disk.write(number, data)
                assert await disk.read(number, size // 512) == data


@pytest.mark.parametrize("traddr", [own_address(), "::1"], ids=["IPv4", "IPv6"])
async def test_it_writes_and_reads(traddr: str) -> None:
    async with serve(ram="4MiB", device="roce", traddr=traddr) as target:
        await exchange(target.url, 3)


async def test_all_addresses() -> None:
    async with serve(ram="4MiB", device="roce", traddr="0.0.0.0") as target:
        await exchange(target.url.replace("0.0.0.0", "127.0.0.1"))


async def test_many_connections_of_one_process() -> None:
    """Each connection has its own epolls, and the kernel limits how many of them one socket may be
    in.
    """
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        hosts = [await connect(target.url, **OPTIONS) for _ in range(60)]
        try:
            for number, controller in enumerate(hosts):
                await controller.namespaces[0].write(number, bytes([number]) * 512)
            for number, controller in enumerate(reversed(hosts)):
                assert await controller.namespaces[0].read(number, 1) == bytes([number]) * 512
        finally:
            for controller in hosts:
                await controller.close()


async def test_nothing_is_left() -> None:
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        await exchange(target.url)
        assert resources()["mr"]
    assert {name: count for name, count in resources().items() if count and name != "pd"} == {}


async def test_discovery_says_rocev2() -> None:
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        url = target.url.rpartition("/")[0]
        *_, entry = await discover(url, device="roce")
    assert entry.rdma_prtype == RdmaProvider.ROCEV2


async def test_auto_takes_the_device_that_the_record_names() -> None:
    port = {"traddr": own_address(), "trsvcid": 4420, "device": "roce"}
    shown = {"traddr": "127.0.0.1", "trsvcid": 0, "device": "iwarp"}
    disk = {"nqn": NQN, "allow_any_host": True, "namespace": [{"store": "ram", "size": "1MiB"}]}
    config = Config.model_validate({"port": [shown, port], "subsystem": [disk]})
    devices = {}
    async with serve(config) as target:
        where = next(address for address in target.ports if address[0] == "127.0.0.1")
        async for found in connect_all(f"nvme+rdma://127.0.0.1:{where[1]}", connect_timeout=60.0):
            assert found.controller is not None, found.error
            devices[found.place.traddr] = found.controller.device
            await found.controller.close()
    if "system" in devices.values():
        pytest.skip("a device of the system reaches the address, and comes first")
    assert devices == {"127.0.0.1": "iwarp", port["traddr"]: "roce"}


async def test_nobody_listens_on_that_port() -> None:
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        address, _, nqn = target.url.rpartition("/")
        wrong = address.rpartition(":")[0] + ":1/" + nqn
        with pytest.raises(ConnectError, match=r"\(invalid service ID\): no target listens there"):
            await exchange(wrong)


async def test_the_udp_port_is_taken() -> None:
    address = own_address()
    with endpoint(address), pytest.raises(ServerError, match="one UDP port 4791"):
        await serve(ram="1MiB", device="roce", traddr=address)


async def test_a_smaller_mtu_is_tried() -> None:
    address, seen = own_address(), list[bytes]()

    def target(sock: socket.socket) -> None:
        for reason in (26, 26, 28):  # the MTU is not valid, and then the consumer rejects it
            packet, client = sock.recvfrom(1000)
            while packet in seen:  # it was sent again
                packet, client = sock.recvfrom(1000)
            seen.append(packet)
            answer = management(REJ, bytes(4), packet[44:48], bytes(2), struct.pack("!H", reason))
            sock.sendto(answer + icrc((address, PORT), client, answer), client)

    with endpoint(address) as sock:
        sock.settimeout(30)
        task = asyncio.create_task(asyncio.to_thread(target, sock))
        with pytest.raises(ConnectError, match="REJECTED"):
            await exchange(f"nvme+rdma://{address}:4420/nqn.2014-08.org.nvmexpress.discovery")
        await task
    assert [packet[94] >> 4 for packet in seen] == [5, 4, 3]
    assert len({packet[44:48] for packet in seen}) == 3


async def test_a_client_in_another_process() -> None:
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nvmf.cli.main", "id-ctrl", target.url, "--device", "roce"),
            stdout=subprocess.PIPE,
        )
        out, _ = await child.communicate()
        assert child.returncode == 0
        assert b"mn" in out


# ---- packet loss ----


def lose(share: float, seed: int) -> Callable[[bytes], list[bytes]]:
    """Return a function that drops, repeats and delays packets, each with this probability."""
    chance = random.Random(seed)
    late: list[bytes] = []

    def spoil(packet: bytes) -> list[bytes]:
        sent = [packet]
        fate = chance.random() / share
        if fate < 1:
            sent = []
        elif fate < 2:
            sent = [packet, packet]
        elif fate < 3 and not late:
            late.append(packet)
            return []
        return [*sent, late.pop()] if late else sent

    return spoil


@pytest.mark.parametrize("share", [0.002, 0.02])
async def test_nothing_is_lost_for_good(share: float) -> None:
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0], lose(share, 7)) as relay:
            await exchange(target.url.replace(target.ports[0][0], relay.address), 3)
            assert relay.packets > 1000


async def test_a_damaged_packet_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = 0
    chance = random.Random(3)

    def wrong(src: tuple[str, int], dst: tuple[str, int], packet: bytes) -> bytes:
        nonlocal damaged
        found = icrc(src, dst, packet)
        if chance.random() < 0.02:
            damaged += 1
            return bytes([found[0] ^ 1]) + found[1:]
        return found

    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0]) as relay:
            monkeypatch.setattr("support.roce.icrc", wrong)
            await exchange(target.url.replace(target.ports[0][0], relay.address), 2)
    assert damaged


# ---- messages ----


async def test_each_end_says_with_which_number_the_other_begins() -> None:
    """The PSN of a REQ is that of the first packet of the peer, as in the REP."""
    seen: list[bytes] = []

    def watch(packet: bytes) -> list[bytes]:
        seen.append(packet)
        return [packet]

    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0], watch) as relay:
            await exchange(target.url.replace(target.ports[0][0], relay.address))
    for kind in (REQ, REP):
        wanted = struct.pack("!H", kind)
        said = next(p for p in seen if p[0] == MANAGEMENT and p[36:38] == wanted)
        qpn, psn = (said[56:59], said[64:67]) if kind == REP else (said[76:79], said[88:91])
        first = next(p for p in seen if p[0] not in RESPONSES and p[5:8] == qpn)
        assert first[9:12] == psn


# ---- unknown peers ----


def management(kind: int, *fields: bytes) -> bytes:
    """Return a packet to queue pair 1 with a message of the communication manager."""
    body = b"".join(fields).ljust(232, b"\0")
    mad = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 1, kind, 0, 0) + body
    bth = struct.pack("!BBHII", MANAGEMENT, 0, 0xFFFF, 1, 0)
    return bth + struct.pack("!II", 0x80010000, 1) + mad


async def test_a_stranger_does_not_end_a_connection() -> None:
    seen: list[bytes] = []

    def watch(packet: bytes) -> list[bytes]:
        if packet[0] == MANAGEMENT:
            seen.append(packet)
        return [packet]

    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0], watch) as relay:
            url = target.url.replace(target.ports[0][0], relay.address)
            async with connect(url, **OPTIONS) as controller:
                rep = next(p for p in seen if p[36:38] == b"\x00\x13")
                ids, qpn = rep[44:52], rep[56:59]
                target_id, client_id = ids[:4], ids[4:]
                stranger = own_address()
                with endpoint(stranger) as sock:
                    sock.settimeout(30)
                    packet = management(DREQ, client_id, target_id, qpn)
                    where = (target.ports[0][0], PORT)
                    sock.sendto(packet + icrc((stranger, PORT), where, packet), where)
                    answer = sock.recv(1000)
                    assert answer[36:38] == b"\x00\x16"  # it has no connection with this peer
                data = os.urandom(4096)
                await controller.namespaces[0].write(0, data)
                assert await controller.namespaces[0].read(0, 8) == data


async def test_rubbish_is_ignored() -> None:
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        chance = random.Random(5)
        own = own_address()
        where = (target.ports[0][0], PORT)
        with endpoint(own) as sock:
            for length in (0, 1, 11, 12, 15, 16, 20, 279, 280, 281, 4200, 60000):
                sock.sendto(chance.randbytes(length), where)
            for kind in range(0x10, 0x17):
                packet = management(kind, chance.randbytes(232))
                sock.sendto(packet + icrc((own, PORT), where, packet), where)
            for opcode in range(0x20):
                packet = bytes([opcode, 0]) + b"\xff\xff" + chance.randbytes(40)
                sock.sendto(packet + icrc((own, PORT), where, packet), where)
            packet = management(REQ, chance.randbytes(232))
            sock.sendto(packet[:40] + icrc((own, PORT), where, packet[:40]), where)
        await exchange(target.url)
