# SPDX-License-Identifier: BSD-3-Clause
"""Targets that do not identify a namespace, or answer late: the others are used, and no command
goes to a namespace that may be a different one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import FRIEND_NQN, SUBNQN, TIMEOUT
from wire import nvme
from wire.nvme import Admin, Fctype, Io

if TYPE_CHECKING:
    from nvmf.initiator import Controller
    from nvmf.initiator.base.pending import Pending

pytestmark = pytest.mark.usefixtures("need_client")
OPTIONS: dict[str, Any] = {
    "device": "iwarp", "queues": 1, "hostnqn": FRIEND_NQN, "ctrl_loss_tmo": -1.0,
    "reconnect_delay": 0.01, "io_timeout": 60.0, "connect_timeout": 60.0, "kato": 0.0,
}  # fmt: skip
INTERNAL_ERROR, INVALID_FIELD = 0x06, 0x02
NAMESPACE, DESCRIPTORS = 0, 3


def client(responder: NvmeResponder) -> Pending[Controller]:
    from nvmf.initiator import connect

    return connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", **OPTIONS)


def two(capsule: bytes) -> bytes:
    """Identify data of a controller with two namespaces."""
    if capsule[40] == 2:
        after = int.from_bytes(capsule[4:8], "little")
        return b"".join(struct.pack("<I", n) for n in (1, 2) if n > after).ljust(4096, b"\0")
    return identify(capsule)


class Refusing:
    """Refuses Identify of one namespace while status is set, and records I/O by NSID."""

    def __init__(self, responder: NvmeResponder, cns: int, nsid: int) -> None:
        self.status = 0
        self.io: list[int] = []
        self._cns, self._nsid = cns, nsid
        responder.hook = self._hook

    def _hook(self, connection: Connection, capsule: bytes) -> bool:
        if connection.qid and capsule[0] in (Io.READ, Io.WRITE):
            self.io.append(capsule[4])
        what = (capsule[0], capsule[40], capsule[4])
        if connection.qid or not self.status or what != (Admin.IDENTIFY, self._cns, self._nsid):
            return False
        connection.complete(capsule, nvme.DNR | self.status)
        return True


def cut(responder: NvmeResponder) -> None:
    for connection in responder.connections:
        connection.peer.sock.shutdown(socket.SHUT_RDWR)


async def test_many_that_cannot_be_used(responder: NvmeResponder, caplog: Any) -> None:
    """A target that refuses to identify a thousand namespaces fills no log with each reading."""

    def listed(capsule: bytes) -> bytes:
        if capsule[40] == 2:
            after = int.from_bytes(capsule[4:8], "little")
            nsids = [nsid for nsid in range(1, 1001) if nsid > after]
            return struct.pack(f"<{len(nsids)}I", *nsids).ljust(4096, b"\0")
        return identify(capsule)

    def hook(connection: Connection, capsule: bytes) -> bool:
        nsid = int.from_bytes(capsule[4:8], "little")
        if capsule[0] != Admin.IDENTIFY or capsule[40] != NAMESPACE or nsid == 1:
            return False
        connection.complete(capsule, nvme.DNR | INTERNAL_ERROR)
        return True

    responder.identify = listed
    responder.hook = hook
    async with client(responder) as one:
        for _ in range(3):
            await one.refresh()
    assert caplog.text.count("cannot be used") == 9
    assert "991 further namespaces cannot be used" in caplog.text


@pytest.mark.parametrize("how", ["refused", "different"])
async def test_namespaces_that_alternate(
    responder: NvmeResponder, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """A target that identifies its namespaces, and then does not, or differently, fills no log."""
    count, readings, spoilt = 40, 30, False

    def listed(capsule: bytes) -> bytes:
        if capsule[40] == 2:
            after = int.from_bytes(capsule[4:8], "little")
            return struct.pack(f"<{count - after}I", *range(after + 1, count + 1)).ljust(
                4096, b"\0"
            )
        data = bytearray(identify(capsule))
        if capsule[40] == NAMESPACE:
            data[104:120] = bytes([1 + spoilt]) * 12 + capsule[4:8]
        return bytes(data)

    def hook(connection: Connection, capsule: bytes) -> bool:
        if how != "refused" or not spoilt or capsule[0] != Admin.IDENTIFY or connection.qid:
            return False
        if capsule[40] != NAMESPACE:
            return False
        connection.complete(capsule, nvme.DNR | INTERNAL_ERROR)
        return True

    responder.identify = listed
    responder.hook = hook
    begin = time.monotonic()
    async with client(responder) as one:
        for _ in range(readings):
            held = one.namespaces  # in use: they get no command until they are identified
            assert len(held) == (0 if spoilt and how == "refused" else count)
            spoilt = not spoilt
            await one.refresh()
    told = [each for each in caplog.records if each.levelno >= logging.WARNING]
    # of 8 readings at once, then of one in a minute, at most 8 namespaces and the number of others
    readings_told = 9 + (time.monotonic() - begin) / 60
    assert 9 <= len(told) <= readings_told * (18 if how == "refused" else 9)
    assert f"{count - 8} further namespaces are no longer used as before" in caplog.text


async def test_a_refusal_has_its_status(
    responder: NvmeResponder, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log of a target with a mirror it is a field."""
    from nvmf.target.logs.fields import fields_of

    responder.identify = two
    refusing = Refusing(responder, NAMESPACE, 2)
    async with client(responder) as one:
        held = one.namespace(2)
        refusing.status = INTERNAL_ERROR
        for _ in range(2):
            await one.refresh()
        assert held.replaced
    told = [each for each in caplog.records if "namespace 2" in each.getMessage()]
    assert [fields_of(each) for each in told] == [{"status": "Internal Error"}] * 2


async def test_other_namespaces_are_used(responder: NvmeResponder, caplog: Any) -> None:
    responder.identify = two
    refusing = Refusing(responder, NAMESPACE, 2)
    refusing.status = INTERNAL_ERROR
    async with client(responder) as one:
        assert [n.nsid for n in one.namespaces] == [1]
        assert "namespace 2 cannot be used: Identify (namespace) of namespace 2" in caplog.text
        assert await one.namespace(1).read(0, 1) == bytes(512)
        refusing.status = 0
        await one.refresh()
        assert await one.namespace(2).read(0, 1) == bytes(512)


@pytest.mark.parametrize(
    ("cns", "status"),
    [(NAMESPACE, INTERNAL_ERROR), (DESCRIPTORS, INTERNAL_ERROR), (DESCRIPTORS, INVALID_FIELD)],
)
async def test_after_a_reconnect(responder: NvmeResponder, cns: int, status: int) -> None:
    """A namespace gets no command until it is identified again, and its object stays the same."""
    from nvmf.initiator import NvmeError

    responder.identify = two
    refusing = Refusing(responder, cns, 2)
    async with client(responder) as one:
        healthy, other = one.namespace(1), one.namespace(2)
        refusing.status = status
        cut(responder)
        assert await healthy.read(0, 1) == bytes(512)
        refusing.io.clear()
        for command in (other.read(0, 1), other.read_many([0, 1], bytearray(1024))):
            with pytest.raises(NvmeError, match=r"was not sent: .* could not be identified: "):
                await command
        with pytest.raises(NvmeError, match="could not be identified: "):
            await other.write(0, bytes(512))
        assert refusing.io == []
        refusing.status = 0
        assert await other.read(0, 1) == bytes(512)
        assert one.namespace(2) is other
        assert refusing.io == [2]


async def test_an_admin_command_during_a_reset(responder: NvmeResponder) -> None:
    """A command that the disabled controller refuses is sent again after the reset."""
    from nvmf.initiator import State

    refused: list[bytes] = []
    waiting: list[tuple[Connection, bytes]] = []
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid:
            return False
        if capsule[0] == Admin.GET_FEATURES and not refused:
            waiting.append((connection, capsule))
            loop.call_soon_threadsafe(arrived.set)
            return True
        disables = capsule[0] == nvme.FABRICS and capsule[4] == Fctype.PROPERTY_SET
        if disables and waiting:
            _, first = waiting.pop()
            refused.append(first)
            connection.complete(first, nvme.DNR | 0x0C)
        return False

    responder.hook = hook
    async with client(responder) as one:
        asked = asyncio.create_task(one.get_features(7))
        async with asyncio.timeout(TIMEOUT):
            await arrived.wait()
            assert await one.reset()
            await asked
        assert refused
        assert one.state is State.LIVE


async def test_an_earlier_reading_ends_last(responder: NvmeResponder) -> None:
    """The size of a namespace is that of the later reading."""
    size = 1024
    held: list[tuple[Connection, bytes]] = []
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    hold = False

    def hook(connection: Connection, capsule: bytes) -> bool:
        nonlocal hold
        if connection.qid or capsule[0] != Admin.IDENTIFY or capsule[40] != NAMESPACE:
            return False
        data = bytearray(identify(capsule))
        struct.pack_into("<QQQ", data, 0, size, size, size)
        connection.give(capsule, bytes(data))
        if hold:
            hold = False
            held.append((connection, capsule))
            loop.call_soon_threadsafe(arrived.set)
        else:
            connection.complete(capsule)
        return True

    responder.hook = hook
    async with client(responder) as one, asyncio.timeout(TIMEOUT):
        disk = one.namespace(1)
        hold = True
        earlier = asyncio.create_task(one.refresh())
        await arrived.wait()
        size = 2048
        later = asyncio.create_task(one.refresh())
        await asyncio.wait({later}, timeout=0.5)  # it may wait for the earlier one
        connection, capsule = held.pop()
        connection.complete(capsule)
        await asyncio.gather(earlier, later)
        assert disk.blocks == 2048
