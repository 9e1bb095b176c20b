# SPDX-License-Identifier: BSD-3-Clause
"""Malicious targets that otherwise work: a different namespace after a reconnection, a connection
that ends during every command, endless events.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import FRIEND_NQN, SUBNQN
from wire.nvme import Admin, Io
from wire.rdmap import Op

if TYPE_CHECKING:
    from nvmf.initiator import Controller
    from nvmf.initiator.base.pending import Pending
    from nvmf.initiator.multipath import Subsystem

pytestmark = pytest.mark.usefixtures("need_client")
OPTIONS: dict[str, Any] = {
    "device": "iwarp", "queues": 1, "hostnqn": FRIEND_NQN, "ctrl_loss_tmo": -1.0,
    "reconnect_delay": 0.01, "io_timeout": 60.0, "connect_timeout": 60.0, "kato": 0.0,
}  # fmt: skip


def client(responder: NvmeResponder, **changes: Any) -> Pending[Controller]:
    from nvmf.initiator import connect

    return connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", **{**OPTIONS, **changes})


def multipath(responder: NvmeResponder) -> Pending[Subsystem]:
    from nvmf.initiator.multipath import connect_multipath

    return connect_multipath([f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}"], **OPTIONS)


def hang_up(connection: Connection) -> None:
    connection.peer.sock.shutdown(socket.SHUT_RDWR)


# ---- identity of a namespace ----

Change = Callable[[int, bytearray], None]
"""A function of CNS and correct Identify data: the data after the target was away."""


def uuid(cns: int, data: bytearray) -> None:
    if cns == 3:
        data[4:20] = b"dependent   uuid"


def no_uuid(cns: int, data: bytearray) -> None:
    if cns == 3:
        data[:] = bytes(4096)


def nguid(cns: int, data: bytearray) -> None:
    if cns == 0:
        data[104:120] = b"an NGUID, and so"


def bad_descriptors(cns: int, data: bytearray) -> None:
    if cns == 3:
        data[1] = 15


def blocks_of_4k(cns: int, data: bytearray) -> None:
    if cns == 0:
        data[130] = 12


def serial(cns: int, data: bytearray) -> None:
    if cns == 1:
        data[4:24] = b"another".ljust(20)


def shrunk(cns: int, data: bytearray) -> None:
    if cns == 0:
        struct.pack_into("<QQQ", data, 0, 1024, 1024, 1024)
    elif cns == 1:
        data[525] ^= 1  # VWC


def anonymous(change: Change) -> Change:
    """Return a change that also removes all identifiers."""

    def changed(cns: int, data: bytearray) -> None:
        change(cns, data)
        no_uuid(cns, data)

    return changed


def as_ever(cns: int, data: bytearray) -> None:
    """Change nothing."""


OTHERS: list[tuple[str, Change, Change, str]] = [
    ("uuid", as_ever, uuid, "its UUID is 6465"),
    ("no uuid", as_ever, no_uuid, "its UUID is missing, and was 696e"),
    ("nguid", as_ever, nguid, "its NGUID is 616e"),
    ("bad descriptors", as_ever, bad_descriptors, "its UUID is missing"),
    ("blocks", as_ever, blocks_of_4k, "its block size is 4096, and was 512"),
    ("serial", anonymous(as_ever), anonymous(serial), "the serial number is another, not S"),
]
SAME: list[tuple[str, Change, Change]] = [
    ("serial", as_ever, serial),
    ("smaller", as_ever, shrunk),
    ("anonymous", anonymous(as_ever), anonymous(as_ever)),
]


def changing(responder: NvmeResponder, before: Change, after: Change) -> list[int]:
    """The target disconnects at the first Write, and then changes; yields the Writes so far."""
    writes: list[int] = []

    def told(capsule: bytes) -> bytes:
        data = bytearray(identify(capsule))
        (after if writes else before)(capsule[40], data)
        return bytes(data)

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != Io.WRITE:
            return False
        writes.append(len(responder.connections))
        if len(writes) == 1:
            hang_up(connection)
        return len(writes) == 1

    responder.identify, responder.hook = told, hook
    return writes


@pytest.mark.parametrize(("before", "after", "said"), [o[1:] for o in OTHERS],
                         ids=[o[0] for o in OTHERS])  # fmt: skip
async def test_another_namespace(
    responder: NvmeResponder, before: Change, after: Change, said: str
) -> None:
    """No data for the old one is written to the new one, which has an object of its own."""
    from nvmf.initiator import NvmeError

    writes = changing(responder, before, after)
    async with client(responder) as one:
        old = one.namespace(1)
        words = f"Write was not sent: .*not the same as before: .*{said}"
        with pytest.raises(NvmeError, match=words):
            await old.write(0, b"x" * 4096)
        with pytest.raises(NvmeError, match=r"Flush was not sent: .*Invalid Namespace"):
            await old.flush()
        assert len(writes) == 1
        assert responder.store == bytes(len(responder.store))
        new = one.namespace(1)
        assert new is not old
        await new.flush()


@pytest.mark.parametrize(("before", "after"), [s[1:] for s in SAME], ids=[s[0] for s in SAME])
async def test_the_same_namespace(responder: NvmeResponder, before: Change, after: Change) -> None:
    """A changed size, write cache or serial number does not make it a different namespace."""
    writes = changing(responder, before, after)
    async with client(responder) as one:
        disk = one.namespace(1)
        await disk.write(1, b"x" * 512)
        assert one.namespace(1) is disk
        assert writes == [2, 4]
        assert await disk.read(1, 1) == b"x" * 512


@pytest.mark.parametrize(
    ("before", "after"),
    [(as_ever, uuid), (as_ever, no_uuid), (anonymous(as_ever), anonymous(serial))],
    ids=["uuid", "no uuid", "serial"],
)
async def test_another_namespace_by_the_only_path(
    responder: NvmeResponder, before: Change, after: Change
) -> None:
    from nvmf.initiator import NvmeError

    writes = changing(responder, before, after)
    async with multipath(responder) as one:
        with pytest.raises(NvmeError, match="Invalid Namespace"):
            await one.namespace(1).write(0, b"x" * 512)
        assert len(writes) == 1
        await one.namespace(1).write(0, b"y" * 512)


async def test_away_and_back(responder: NvmeResponder) -> None:
    """A namespace that was inactive for a while is the same or a different one when it returns."""
    from nvmf.initiator import NvmeError

    there, change = True, as_ever

    def told(capsule: bytes) -> bytes:
        data = bytearray(identify(capsule))
        change(capsule[40], data)
        return bytes(4096) if capsule[40] == 2 and not there else bytes(data)

    responder.identify = told
    async with client(responder) as one:
        disk = one.namespace(1)
        for change in (as_ever, uuid):
            there = False
            await one.refresh()
            assert one.namespaces == []
            there = True
            await one.refresh()
            assert (one.namespace(1) is disk) == (change is as_ever)
        with pytest.raises(NvmeError, match="not the same as before"):
            await disk.read(0, 1)
        await one.namespace(1).flush()


# ---- the connection ends during every command ----


@pytest.mark.parametrize("connected", [client, multipath])
async def test_a_command_that_always_ends_the_connection(
    responder: NvmeResponder, connected: Callable[[NvmeResponder], Pending[Any]]
) -> None:
    """Each reconnection succeeds, but a command has a limited number of attempts, as in Linux."""
    from nvmf.initiator import ConnectionLost

    reads: list[int] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid and capsule[0] == Io.READ:
            reads.append(connection.qid)
            hang_up(connection)
            return True
        return False

    responder.hook = hook
    async with connected(responder) as one:
        disk = one.namespace(1)
        with pytest.raises(ConnectionLost, match=r"ended 6 times under it.*; the last time: queue"):
            await disk.read(0, 1)
        assert len(reads) == 6
        await disk.write(0, b"1" * 512)


@pytest.mark.parametrize("connected", [client, multipath])
async def test_an_admin_command_that_always_ends_the_connection(
    responder: NvmeResponder, connected: Callable[[NvmeResponder], Pending[Any]]
) -> None:
    from nvmf.initiator import ConnectionLost

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid and capsule[0] == Admin.GET_FEATURES:
            hang_up(connection)
            return True
        return False

    responder.hook = hook
    async with connected(responder) as one, asyncio.timeout(60):
        with pytest.raises(ConnectionLost, match="an admin command: the connection ended 6 times"):
            await one.get_features(7)
        await one.namespace(1).flush()


async def test_a_feature_that_always_ends_the_connection(
    responder: NvmeResponder, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not set forever on each new connection, which commands would never get then."""
    from nvmf.initiator import ConnectionLost

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid and capsule[0] == Admin.SET_FEATURES and capsule[40] == 2:
            hang_up(connection)
            return True
        return False

    responder.hook = hook
    async with multipath(responder) as one, asyncio.timeout(60):
        with pytest.raises(ConnectionLost, match="Set Features: the connection ended 6 times"):
            await one.set_features(2, 1)
        await one.namespace(1).flush()
    assert "feature 02h is no longer set on new connections" in caplog.text


async def test_a_key_that_is_taken_away(responder: NvmeResponder) -> None:
    """An unrequested Send with Invalidate: the registration remains, for the next connection."""
    taken: list[int] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != Io.READ or taken:
            return False
        taken.append(connection.keyed(capsule)[2])
        cqe = struct.pack("<QHH2sH", 0, 0, connection.qid, capsule[2:4], 0)
        connection.peer.send(cqe, op=Op.SEND_INVALIDATE, invalidate=taken[0])
        return True

    responder.hook = hook
    async with client(responder, remote_keys="buffer") as one:
        assert await one.namespace(1).read(0, 1) == bytes(512)
        assert one.reconnects == 1


async def test_a_state_that_is_not_the_one_told(
    responder: NvmeResponder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each Read gets ANA Inaccessible, while the log page always says Optimized."""
    from nvmf.initiator import NvmeError
    from nvmf.spec.ana import AnaGroup, encode_ana_log

    monkeypatch.setattr("nvmf.initiator.multipath.paths._MAX_DOUBTS", 5)
    page = encode_ana_log(1, [AnaGroup(1, 1, 1, (1,))], only_groups=False)
    reads: list[int] = []

    def told(capsule: bytes) -> bytes:
        data = bytearray(identify(capsule))
        if capsule[40] == 1:
            data[76] = 0xA  # CMIC: ANA, several controllers
            struct.pack_into("<BBII", data, 342, 1, 0x1F, 1, 1)
        return bytes(data)

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid and capsule[0] == Admin.GET_LOG_PAGE:
            connection.give(capsule, page[: connection.keyed(capsule)[1]])
            connection.complete(capsule)
        elif connection.qid and capsule[0] == Io.READ:
            reads.append(connection.qid)
            connection.complete(capsule, 0x302)
        else:
            return False
        return True

    responder.identify, responder.hook = told, hook
    async with multipath(responder) as one:
        with pytest.raises(NvmeError, match="Asymmetric Access Inaccessible"):
            await one.namespace(1).read(0, 1)
        assert len(reads) == 6


async def test_a_discovery_controller_in_its_place(responder: NvmeResponder) -> None:
    """A discovery controller has no I/O queues, and is not mistaken for the earlier controller."""
    from nvmf.initiator import ConnectionLost, State

    def discovery(cns: int, data: bytearray) -> None:
        if cns == 1:
            data[111] = 2

    changing(responder, as_ever, discovery)
    async with client(responder, ctrl_loss_tmo=0.3) as one:
        with pytest.raises(ConnectionLost, match="is a discovery subsystem now"):
            await one.namespace(1).write(0, bytes(512))
        assert one.state is State.LOST


# ---- events ----


@pytest.mark.parametrize(
    "event", [0x04_00_02, 0x00_FF_07, 0x01_00_00], ids=["namespaces", "vendor", "errors"]
)
async def test_events_without_end(
    responder: NvmeResponder, event: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each event request is answered at once: the client does not process them at full speed, and
    its log does not grow with each.
    """
    caplog.set_level(logging.INFO, "nvmf.initiator")
    asked: list[float] = []
    loop = asyncio.get_running_loop()

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid or capsule[0] != Admin.ASYNC_EVENT:
            return False
        asked.append(loop.time())
        connection.complete(capsule, 0, event)
        return True

    responder.hook = hook
    async with client(responder) as one, asyncio.timeout(60):
        while len(asked) < 40:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert len(asked) <= 34 + 10 * (loop.time() - asked[0])
        told = caplog.text.count("asynchronous event")
        assert 1 <= told <= 17 + (loop.time() - asked[0]) / 10
        await one.namespace(1).write(0, b"1" * 512)
        assert await one.namespace(1).read(0, 1) == b"1" * 512
