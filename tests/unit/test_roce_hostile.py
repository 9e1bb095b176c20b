# SPDX-License-Identifier: BSD-3-Clause
"""Hostile packets and messages during a connection of the embedded RoCEv2 device, which
continues.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nvmf.initiator import Controller, connect
from nvmf.target import serve
from support.roce import (
    DREP,
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

OPTIONS: dict[str, Any] = {"device": "roce", "queues": 1, "connect_timeout": 60.0}
BTH = 12
MAD = 20
"""Offset of a management packet's datagram, after BTH and DETH."""
KIND, LOCAL, REMOTE = MAD + 16, MAD + 24, MAD + 28
RTU, MRA = 0x14, 0x11
EXTENDED = (0x06, 0x0A, 0x0C, 0x0D, 0x0F, 0x10, 0x11, 0x17, MANAGEMENT)
"""Opcodes with headers after the BTH; others are valid without any payload."""
Spoil = Callable[[bytes], list[bytes]]


def changed(packet: bytes, at: int, value: bytes) -> bytes:
    return packet[:at] + value + packet[at + len(value) :]


def number(packet: bytes, at: int, size: int, add: int) -> bytes:
    """Return a packet with a different number in one of its fields."""
    old = int.from_bytes(packet[at : at + size], "big")
    return changed(packet, at, ((old + add) % (1 << 8 * size)).to_bytes(size, "big"))


def headers(packet: bytes) -> Iterator[bytes]:
    """Yield copies that have a header field out of range, or are too short or too long."""
    yield changed(packet, 0, b"\xe0")  # an opcode that does not exist
    yield changed(packet, 0, bytes([packet[0] | 0x20]))  # of another transport service
    yield changed(packet, 1, bytes([packet[1] | 0x0F]))  # version
    yield changed(packet, 2, b"\x12\x34")  # partition
    yield number(packet, 5, 3, 1)  # queue pair
    yield changed(packet, 5, bytes(3))
    yield changed(packet, 5, b"\xff\xff\xff")
    yield packet[: BTH - 1]
    if packet[0] in EXTENDED:
        yield packet[:BTH]
        yield packet[: BTH + 3]
    yield packet + bytes(8192)


def answers(packet: bytes) -> Iterator[bytes]:
    """Yield responses without a request: to future requests, and to those completed long ago."""
    for opcode in RESPONSES:
        for ahead in (-(1 << 22), -5000, 5000, 1 << 22):
            found = number(changed(packet[:BTH], 0, bytes([opcode])), 9, 3, ahead)
            yield found + b"\x60\0\0\0" + b"\xaa" * 1024
            yield found + b"\x62\0\0\0"
            yield found


def messages(packet: bytes) -> Iterator[bytes]:
    """Yield management packets that are damaged, or about a different connection."""
    yield changed(packet, BTH, bytes(4))  # Q_Key
    for at in range(4):  # version, class, its version, method
        yield number(packet, MAD + at, 1, 1)
    for kind in (0, REQ - 1, DREP + 1, 0xFFFF):
        yield changed(packet, KIND, struct.pack("!H", kind))
    for kind in (REJ, DREQ, REP, RTU, MRA, DREP):
        message = changed(packet, KIND, struct.pack("!H", kind))
        yield number(number(message, LOCAL, 4, 1 << 20), REMOTE, 4, 1 << 20)
        if packet[KIND + 1] not in (REP, MRA):  # before them, no id of the target's is known
            yield number(message, LOCAL, 4, 1)
    yield packet[:-1]
    yield packet + b"\0"


def beside(spoilers: tuple[Callable[[bytes], Iterator[bytes]], ...], management: bool) -> Spoil:
    """Return a function that sends forged packets before each packet of one kind."""

    def spoil(packet: bytes) -> list[bytes]:
        if (packet[0] == MANAGEMENT) != management:
            return [packet]
        if management and packet[KIND + 1] in (REJ, DREP):
            return [packet]  # the answers to forged packets, whose number would grow without limit
        return [*(forged for make in spoilers for forged in make(packet)), packet]

    return spoil


@asynccontextmanager
async def relayed(spoil: Spoil) -> Any:
    """A controller that is connected through a relay, and the target."""
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        with Relay(target.ports[0][0], spoil) as relay:
            url = target.url.replace(target.ports[0][0], relay.address)
            async with connect(url, **OPTIONS) as controller:
                yield controller, target


async def exchange(controller: Controller, rounds: int = 1) -> None:
    chance = random.Random(rounds)
    for size in (512, 4096, 65536) * rounds:
        data = chance.randbytes(size)
        await controller.namespaces[0].write(0, data)
        assert await controller.namespaces[0].read(0, size // 512) == data


@pytest.mark.parametrize("forge", [headers, answers], ids=["headers", "answers"])
async def test_forged_packets_from_the_address_of_the_peer(
    forge: Callable[[bytes], Iterator[bytes]],
) -> None:
    """The packets have the correct ICRC, and are sent in both directions before each genuine
    packet.
    """
    async with relayed(beside((forge,), False)) as (controller, _):
        await exchange(controller, 2)


async def test_forged_messages_from_the_address_of_the_peer() -> None:
    async with relayed(beside((messages, headers), True)) as (controller, _):
        await exchange(controller)


async def test_a_stranger_who_knows_every_number() -> None:
    """Packets from a different address are dropped, even with the numbers of a connection."""
    seen: list[bytes] = []

    def watch(packet: bytes) -> list[bytes]:
        seen.append(packet)
        return [packet]

    async with relayed(watch) as (controller, target):
        stranger, where = own_address(), (target.ports[0][0], PORT)
        with endpoint(stranger) as sock:
            for _ in range(3):
                await exchange(controller)
                for packet in seen[-60:]:
                    for forged in (packet, number(packet, 9, 3, 1), number(packet, 9, 3, 2)):
                        sock.sendto(forged + icrc((stranger, PORT), where, forged), where)
        await exchange(controller)


async def test_a_flood_of_requests() -> None:
    """Answers are not larger than requests, the connection continues, and a second one is made."""
    seen: list[bytes] = []

    def watch(packet: bytes) -> list[bytes]:
        seen.append(packet)
        return [packet]

    async with relayed(watch) as (controller, target):
        request = next(p for p in seen if p[0] == MANAGEMENT and p[36:38] == b"\0\x10")
        stranger, where = own_address(), (target.ports[0][0], PORT)
        sent = received = 0
        with endpoint(stranger) as sock:
            sock.setblocking(False)
            for turn in range(3000):
                forged = number(number(request, LOCAL, 4, turn), 76, 3, turn)
                forged = forged[:252] + bytes(28) if turn % 2 else forged
                packet = forged + icrc((stranger, PORT), where, forged)
                sock.sendto(packet, where)
                sent += len(packet)
                if turn % 100 == 0:
                    await exchange(controller)
            await exchange(controller)
            async with connect(target.url, **OPTIONS) as another:
                await exchange(another)
            while True:
                try:
                    received += len(sock.recv(70000))
                except BlockingIOError:
                    break
        assert 0 < received <= sent


# ---- reports of routers ----


def checksum(data: bytes) -> int:
    """Return the checksum of the Internet (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def too_large(source: str, target: str, mtu: int) -> bytes:
    """Return the ICMP message that a packet between RoCEv2 ports does not fit a link (RFC 1191)."""
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    quoted = struct.pack("!BBHHHBBH", 0x45, 0, 4180, 0, 0x4000, 64, 17, 0) + ends
    quoted += struct.pack("!HHHH", PORT, PORT, 4160, 0)
    message = struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + quoted
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def path_mtu(source: str, target: str) -> int:
    """Return the MTU that the kernel assumes between two addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sock.connect((target, PORT))
        mtu: int = sock.getsockopt(socket.IPPROTO_IP, 14)  # IP_MTU
    return mtu


async def test_a_forged_report_of_a_small_mtu() -> None:
    """Anybody can send one: the kernel believes it, and the device does not."""
    async with serve(ram="4MiB", device="roce", traddr=own_address()) as target:
        address = target.ports[0][0]
        with Relay(address) as relay:
            url = target.url.replace(address, relay.address)
            async with connect(url, **OPTIONS) as controller:
                await exchange(controller)
                try:
                    with socket.socket(
                        socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP
                    ) as router:
                        router.bind((own_address(), 0))
                        router.sendto(too_large(address, relay.far, 600), (address, 0))
                except PermissionError:
                    pytest.skip("no privilege to forge an ICMP message")
                if path_mtu(address, relay.far) > 4096:
                    pytest.skip("the kernel does not believe such messages here")
                await exchange(controller, 2)


# ---- messages that are lost ----


def first_copies_lost() -> Spoil:
    """Return a function that drops the first copy of each message, and doubles the later ones."""
    seen: set[bytes] = set()

    def spoil(packet: bytes) -> list[bytes]:
        if packet[0] != MANAGEMENT:
            return [packet]
        if packet in seen:
            return [packet, packet]
        seen.add(packet)
        return []

    return spoil


def late_messages() -> Spoil:
    """Return a function that sends each message again after each later one of its direction."""
    old: dict[bool, list[bytes]] = {True: [], False: []}

    def spoil(packet: bytes) -> list[bytes]:
        if packet[0] != MANAGEMENT or packet[KIND + 1] == DREP:
            return [packet]
        before = old[packet[KIND + 1] in (REQ, RTU, DREQ)]
        before.append(packet)
        return [packet, *before]

    return spoil


@pytest.mark.parametrize("make", [first_copies_lost, late_messages])
async def test_messages_that_are_lost_or_come_again(make: Callable[[], Spoil]) -> None:
    async with relayed(make()) as (controller, _):
        await exchange(controller, 2)


async def test_damaged_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with a wrong ICRC is dropped, and is sent again."""
    damaged = set[bytes]()

    def wrong(src: tuple[str, int], dst: tuple[str, int], packet: bytes) -> bytes:
        found = icrc(src, dst, packet)
        if packet[0] == MANAGEMENT and packet not in damaged:
            damaged.add(packet)
            return bytes([found[0] ^ 1]) + found[1:]
        return found

    monkeypatch.setattr("support.roce.icrc", wrong)
    async with relayed(lambda packet: [packet]) as (controller, _):
        await exchange(controller)
    assert len(damaged) > 3
