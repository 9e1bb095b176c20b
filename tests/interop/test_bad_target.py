# SPDX-License-Identifier: BSD-3-Clause
"""Misbehaving targets: our client ends the connection with the correct Terminate and an error."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from support.responder import Connection, NvmeResponder
from support.spoiling import connected, ended, good
from wire import nvme, rdmap
from wire.nvme import Fctype, Io
from wire.peer import Placed
from wire.rdmap import Op, ReadRequest

if TYPE_CHECKING:
    from nvmf.initiator import Controller

pytestmark = pytest.mark.usefixtures("need_client")


async def test_good(controller: Controller) -> None:
    """The target works before it is modified."""
    await good(controller)


async def test_slow(responder: NvmeResponder) -> None:
    """A target that, like siw, does not process a Connect before more data arrives gets a nudge.

    If the host itself sent so late that no target can have missed it, the test is repeated.
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
    """Send an RDMA WRITE past the end of the buffer."""
    address, length, key = connection.keyed(capsule)
    connection.peer.write(key, address + length - 4, bytes(8))


def before(connection: Connection, capsule: bytes) -> None:
    """Send an RDMA WRITE to the address one huge page before the buffer."""
    address, _, key = connection.keyed(capsule)
    connection.peer.write(key, address - (64 << 20), bytes(8))


def wrapped(connection: Connection, capsule: bytes) -> None:
    """Send an RDMA WRITE across the end of the address space."""
    connection.peer.write(connection.keyed(capsule)[2], (1 << 64) - 4, bytes(8))


def unknown(connection: Connection, capsule: bytes) -> None:
    """Send an RDMA WRITE to a key that differs by one bit."""
    address, _, key = connection.keyed(capsule)
    connection.peer.write(key ^ 0x100, address, bytes(8))


def reads_unknown(connection: Connection, capsule: bytes) -> None:
    """Send an RDMA READ of a key that differs by one bit."""
    address, length, key = connection.keyed(capsule)
    connection.peer.read_request(ReadRequest(0x77, 0, length, key ^ 0x100, address))


def reads_beyond(connection: Connection, capsule: bytes) -> None:
    """Send an RDMA READ of memory past the end of all registered memory."""
    address, length, key = connection.keyed(capsule)
    connection.peer.read_request(ReadRequest(0x77, 0, length, key, address + (64 << 20)))


def wrong_invalidate(connection: Connection, capsule: bytes) -> None:
    """Send a response that invalidates a key that was not in the command."""
    cid = capsule[2:4]
    cqe = bytes(8) + struct.pack("<HH", 0, connection.qid) + cid + bytes(2)
    key = connection.keyed(capsule)[2] ^ 0x100
    connection.peer.send(cqe, op=Op.SEND_INVALIDATE, invalidate=key)


def own_invalidate(connection: Connection, capsule: bytes) -> None:
    """Send a response that invalidates the command's key."""
    cid = capsule[2:4]
    cqe = bytes(8) + struct.pack("<HH", 0, connection.qid) + cid + bytes(2)
    connection.peer.send(cqe, op=Op.SEND_INVALIDATE, invalidate=connection.keyed(capsule)[2])


def bad_msn(connection: Connection, capsule: bytes) -> None:
    """Send a response out of order."""
    connection.peer.msn[0] += 1
    connection.complete(capsule)


def bad_opcode(connection: Connection, capsule: bytes) -> None:
    """Send a segment with the undefined RDMAP opcode 9."""
    peer = connection.peer
    peer.send_ulpdu(rdmap.encode_untagged(9, bytes(16), msn=peer.msn[0]))


def long_response(connection: Connection, capsule: bytes) -> None:
    """Send a response of 64 KiB."""
    connection.peer.send(bytes(60000), segment=60000)


def unasked_response(connection: Connection, capsule: bytes) -> None:
    """Send a Read Response without a request."""
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
    """The command fails with ConnectionLost, and the target gets the Terminate."""
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
    """A response that invalidates the key of its command is correct if the command requested it.

    Otherwise the key is that of a whole buffer, which the target may not invalidate.
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
    """The key of a completed command is invalid: a target that uses it is disconnected."""
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
