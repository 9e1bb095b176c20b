# SPDX-License-Identifier: BSD-3-Clause
"""Targets that are wrong: our client ends the connection with the right Terminate and an error."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from wire import nvme, rdmap
from wire.nvme import Fctype, Io, Reject
from wire.peer import Placed
from wire.rdmap import Op, ReadRequest, Terminate
from wire.responder import Connection, NvmeResponder, identify
from wire.served import FRIEND_NQN, SUBNQN

if TYPE_CHECKING:
    from nvmf.initiator import Controller

pytestmark = pytest.mark.usefixtures("need_client")


@pytest.fixture
def responder() -> Iterator[NvmeResponder]:
    """A target of ours to spoil."""
    with NvmeResponder(SUBNQN, identify, cap=0x0000_0020_0F01_007F) as one:
        yield one
        one.errors.clear()


@asynccontextmanager
async def connected(
    responder: NvmeResponder, *, io_timeout: float = 60.0, **options: str | bool
) -> AsyncIterator[Controller]:
    """Our client, connected to it; it does not come back once lost."""
    from nvmf.initiator import connect

    url = f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}"
    async with connect(
        url, device="iwarp", queues=1, hostnqn=FRIEND_NQN, ctrl_loss_tmo=0.0,
        io_timeout=io_timeout, connect_timeout=60.0, kato=0.0, **options,
    ) as one:  # fmt: skip
        yield one


@pytest.fixture
async def controller(responder: NvmeResponder) -> AsyncIterator[Controller]:
    """The client of a test."""
    async with connected(responder) as one:
        yield one


async def good(controller: Controller) -> None:
    disk = controller.namespace(1)
    await disk.write(3, b"3" * 5120)
    assert await disk.read(3, 10) == b"3" * 5120


async def test_good(controller: Controller) -> None:
    """The target works before it is spoilt."""
    await good(controller)


async def test_slow(responder: NvmeResponder) -> None:
    """A target that takes no Connect up before something follows it, as siw may: it is nudged.

    Unless the host itself spoke so late that no target can have missed it: then once more.
    """
    nudged: set[int] = set()

    def hook(connection: Connection, capsule: bytes) -> bool:
        if capsule[0] == nvme.FABRICS and capsule[4] == Fctype.CONNECT:
            with suppress(TimeoutError):
                event = connection.peer.event(2.0)
                assert isinstance(event, Placed)
                assert not event.size
                nudged.add(connection.qid)
        return False

    responder.hook = hook
    for _ in range(10):
        async with connected(responder) as one:
            await good(one)
        assert not responder.errors
        if nudged == {0, 1}:
            return
    raise AssertionError(f"of its queues only {nudged} were nudged")


Spoil = Callable[[Connection, bytes], None]
PROTECTION = {(1, 1, code) for code in range(5)} | {(0, 1, code) for code in range(5)}
NO_INVALIDATE = {(0, 1, 9), (0, 2, 9), (0, 1, 0)}


def beyond(connection: Connection, capsule: bytes) -> None:
    """RDMA WRITE behind the buffer."""
    address, length, key = connection.keyed(capsule)
    connection.peer.write(key, address + length - 4, bytes(8))


def before(connection: Connection, capsule: bytes) -> None:
    """RDMA WRITE before it, by as much as a huge page."""
    address, _, key = connection.keyed(capsule)
    connection.peer.write(key, address - (64 << 20), bytes(8))


def wrapped(connection: Connection, capsule: bytes) -> None:
    """RDMA WRITE round the end of the address space."""
    connection.peer.write(connection.keyed(capsule)[2], (1 << 64) - 4, bytes(8))


def unknown(connection: Connection, capsule: bytes) -> None:
    """RDMA WRITE to a key that differs by one bit."""
    address, _, key = connection.keyed(capsule)
    connection.peer.write(key ^ 0x100, address, bytes(8))


def reads_unknown(connection: Connection, capsule: bytes) -> None:
    """RDMA READ of a key that differs by one bit."""
    address, length, key = connection.keyed(capsule)
    connection.peer.read_request(ReadRequest(0x77, 0, length, key ^ 0x100, address))


def reads_beyond(connection: Connection, capsule: bytes) -> None:
    """RDMA READ of what lies behind all that is registered."""
    address, length, key = connection.keyed(capsule)
    connection.peer.read_request(ReadRequest(0x77, 0, length, key, address + (64 << 20)))


def wrong_invalidate(connection: Connection, capsule: bytes) -> None:
    """A response that invalidates a key that the command did not give."""
    cid = capsule[2:4]
    cqe = bytes(8) + struct.pack("<HH", 0, connection.qid) + cid + bytes(2)
    key = connection.keyed(capsule)[2] ^ 0x100
    connection.peer.send(cqe, op=Op.SEND_INVALIDATE, invalidate=key)


def own_invalidate(connection: Connection, capsule: bytes) -> None:
    """A response that invalidates the command's key."""
    cid = capsule[2:4]
    cqe = bytes(8) + struct.pack("<HH", 0, connection.qid) + cid + bytes(2)
    connection.peer.send(cqe, op=Op.SEND_INVALIDATE, invalidate=connection.keyed(capsule)[2])


def bad_msn(connection: Connection, capsule: bytes) -> None:
    """A response out of order."""
    connection.peer.msn[0] += 1
    connection.complete(capsule)


def bad_opcode(connection: Connection, capsule: bytes) -> None:
    """RDMAP opcode 9."""
    peer = connection.peer
    peer.send_ulpdu(rdmap.encode_untagged(9, bytes(16), msn=peer.msn[0]))


def long_response(connection: Connection, capsule: bytes) -> None:
    """A response of 64 KiB."""
    connection.peer.send(bytes(60000), segment=60000)


def unasked_response(connection: Connection, capsule: bytes) -> None:
    """A Read Response that nobody asked for."""
    connection.peer.send_ulpdu(rdmap.encode_tagged(Op.READ_RESPONSE, 7, 0, bytes(8)))


SPOILERS: list[tuple[Spoil, set[tuple[int, int, int]]]] = [
    (beyond, PROTECTION),
    (before, PROTECTION),
    (wrapped, PROTECTION),
    (unknown, PROTECTION),
    (reads_unknown, PROTECTION),
    (reads_beyond, PROTECTION),
    (wrong_invalidate, NO_INVALIDATE),
    (bad_msn, {(1, 2, 3), (1, 2, 2)}),
    (bad_opcode, {(0, 2, 6)}),
    (long_response, {(1, 2, 5)}),
    (unasked_response, {(1, 1, 0), (0, 2, 6), (0, 2, 7)}),
]


@pytest.mark.parametrize(("spoil", "codes"), SPOILERS, ids=[s[0].__name__ for s in SPOILERS])
async def test_terminated(
    responder: NvmeResponder,
    controller: Controller,
    spoil: Spoil,
    codes: set[tuple[int, int, int]],
) -> None:
    """The command fails with ConnectionLost, the target gets the Terminate."""
    from nvmf.initiator import ConnectionLost

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != Io.READ:
            return False
        spoil(connection, capsule)
        return True

    responder.hook = hook
    with pytest.raises(ConnectionLost):
        await controller.namespace(1).read(0, 1)
    found = await ended(responder.connections[1])
    assert found is not None, "no Terminate came"
    assert (found.layer, found.etype, found.code) in codes, str(found)


@pytest.mark.parametrize("keys", ["command", "buffer"])
async def test_own_key_invalidated(responder: NvmeResponder, keys: str) -> None:
    """A response that invalidates the key of its command is right if the command asked for it.

    Otherwise the key is that of a whole buffer, which is not the target's to take.
    """
    from nvmf.initiator import ConnectionLost

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != Io.READ:
            return False
        assert capsule[39] == (0x4F if keys == "command" else 0x40)
        own_invalidate(connection, capsule)
        return True

    async with connected(responder, remote_keys=keys) as controller:
        responder.hook = hook
        if keys == "command":
            for _ in range(300):
                await controller.namespace(1).read(0, 1)
            return
        with pytest.raises(ConnectionLost):
            await controller.namespace(1).read(0, 1)
        found = await ended(responder.connections[1])
        assert found is not None, "no Terminate came"
        assert (found.layer, found.etype, found.code) in NO_INVALIDATE, str(found)


@pytest.mark.parametrize("use", ["write", "read"])
async def test_key_after_its_command(responder: NvmeResponder, use: str) -> None:
    """The key of a command that is complete is nobody's: the target that uses it is cut off."""
    from nvmf.initiator import ConnectionLost

    keys: list[tuple[Connection, tuple[int, int, int]]] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid and capsule[0] == (Io.READ if use == "write" else Io.WRITE):
            keys.append((connection, connection.keyed(capsule)))
        return False

    async with connected(responder, in_capsule=False) as controller:
        responder.hook = hook
        disk = controller.namespace(1)
        await (disk.read(0, 1) if use == "write" else disk.write(0, bytes(512)))
        connection, (address, length, key) = keys[0]
        if use == "write":
            connection.peer.write(key, address, bytes(8))
        else:
            connection.peer.read_request(ReadRequest(0x77, 0, length, key, address))
        found = await ended(connection)
        assert found is not None, "no Terminate came"
        assert (found.layer, found.etype, found.code) in PROTECTION, str(found)
        with pytest.raises(ConnectionLost):
            await disk.read(0, 1)


async def ended(connection: Connection) -> Terminate | None:
    """The Terminate that the client sent."""
    for _ in range(3000):
        if connection.ended is not None:
            return connection.ended
        await asyncio.sleep(0.02)
    return None


def response(connection: Connection, cid: int, *, size: int = 16, status: int = 0) -> None:
    """A response capsule of any kind."""
    cqe = struct.pack("<QHHHH", 0, 0, connection.qid, cid, status)
    connection.peer.send(cqe[:size].ljust(size, b"\0"))


def unknown_cid(connection: Connection, capsule: bytes) -> None:
    """A response to a command that there is not."""
    response(connection, int.from_bytes(capsule[2:4], "little") ^ 0x4000)


def short_response(connection: Connection, capsule: bytes) -> None:
    """Eight bytes."""
    response(connection, int.from_bytes(capsule[2:4], "little"), size=8)


def closes(connection: Connection, capsule: bytes) -> None:
    """The target goes away."""
    connection.peer.sock.shutdown(socket.SHUT_RDWR)


def terminates(connection: Connection, capsule: bytes) -> None:
    """The target terminates."""
    connection.peer.terminate(0, 2, 7)


@pytest.mark.parametrize("spoil", [unknown_cid, short_response, closes, terminates])
async def test_lost(responder: NvmeResponder, controller: Controller, spoil: Spoil) -> None:
    """ConnectionLost, in time; never a hang and never data that did not come."""
    from nvmf.initiator import ConnectionLost

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] != Io.READ:
            return False
        spoil(connection, capsule)
        return True

    responder.hook = hook
    with pytest.raises(ConnectionLost):
        await controller.namespace(1).read(0, 1)


Lie = Callable[[int, int, bytearray], None]
"""Given CNS, NSID and right Identify data: what the target says instead."""


def same_list(cns: int, nsid: int, data: bytearray) -> None:
    """A full list of namespaces, the same whatever it is to begin after."""
    if cns == 2:
        data[:] = struct.pack("<1024I", *range(1, 1025))


def endless_list(cns: int, nsid: int, data: bytearray) -> None:
    """More namespaces after each."""
    if cns == 2:
        data[:] = struct.pack("<1024I", *range(nsid + 1, nsid + 1025))


@pytest.mark.parametrize("lie", [same_list, endless_list])
async def test_lists_without_end(responder: NvmeResponder, lie: Lie) -> None:
    """A sentence, instead of reading for ever."""
    from nvmf.initiator import ConnectionLost

    responder.identify = partial(telling, lie)
    with pytest.raises(ConnectionLost, match="active namespaces does not end"):
        async with connected(responder):
            pass


def telling(lie: Lie, capsule: bytes) -> bytes:
    data = bytearray(identify(capsule))
    lie(capsule[40], int.from_bytes(capsule[4:8], "little"), data)
    return bytes(data)


def boundless(cns: int, nsid: int, data: bytearray) -> None:
    """MDTS and IOCCSZ of more than any command can have."""
    if cns == 1:
        data[77] = 255
        struct.pack_into("<I", data, 1792, 0xFFFFFFFF)


async def test_limits_beyond_all_measure(responder: NvmeResponder) -> None:
    """No command is longer than its descriptor can say (Base 2.0, 4.1.2.1: 24 bits)."""
    responder.identify = partial(telling, boundless)
    async with connected(responder) as one:
        assert one.max_transfer == (1 << 24) - 1
        await good(one)


async def test_unanswered(responder: NvmeResponder) -> None:
    """No response at all: the I/O timeout ends it."""
    from nvmf.initiator import ConnectionLost

    responder.hook = lambda connection, capsule: bool(connection.qid and capsule[0] == Io.READ)
    async with connected(responder, io_timeout=1.0) as one:
        with pytest.raises(ConnectionLost):
            await one.namespace(1).read(0, 1)


async def test_response_twice(responder: NvmeResponder, controller: Controller) -> None:
    """The second one answers nothing: the connection ends or it is ignored, no data is mixed up."""
    from nvmf.initiator import ConnectionLost

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid and capsule[0] == Io.FLUSH:
            response(connection, int.from_bytes(capsule[2:4], "little"))
            response(connection, int.from_bytes(capsule[2:4], "little"))
            return True
        return False

    responder.hook = hook
    disk = controller.namespace(1)
    await disk.flush()
    try:
        await disk.write(5, b"5" * 512)
        assert await disk.read(5, 1) == b"5" * 512
    except ConnectionLost:
        pass


@pytest.mark.parametrize("status", list(Reject))
async def test_rejected(responder: NvmeResponder, status: Reject) -> None:
    """Each reject by its number, in an error that names it."""
    from nvmf.initiator import ConnectError, connect

    responder.refuse = lambda start: nvme.cm_reject(status)
    with pytest.raises(ConnectError) as error:
        await connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp")
    assert error.value.reject_sts == status
    assert len(str(error.value)) > 20


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\x63\0", b"\1\0\4\0", bytes(200)])
async def test_strange_rejects(responder: NvmeResponder, data: bytes) -> None:
    """Private data of a reject that is none of NVMe-oF's."""
    from nvmf.initiator import ConnectError, connect

    responder.refuse = lambda start: data
    with pytest.raises(ConnectError):
        await connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp")


async def test_room_for_one_command(responder: NvmeResponder) -> None:
    """On the admin queue a request for events would take it; an I/O queue can do with one."""
    from nvmf.initiator import ConnectError

    responder.accept = lambda depth: nvme.cm_accept(1)
    with pytest.raises(ConnectError, match="takes one admin command at a time"):
        async with connected(responder):
            pass
    responder.accept = lambda depth: nvme.cm_accept(2 if depth == 32 else 1)
    async with connected(responder) as one:
        await asyncio.gather(*(one.namespace(1).write(lba, b"1" * 512) for lba in range(20)))
        await asyncio.gather(*(one.identify_data(1) for _ in range(20)))
        await good(one)
