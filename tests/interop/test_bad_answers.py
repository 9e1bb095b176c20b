# SPDX-License-Identifier: BSD-3-Clause
"""Targets whose answers are wrong: our client reports an error in time, and never wrong data."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import SUBNQN
from support.spoiling import connected, good
from wire import nvme
from wire.nvme import Io, Reject

if TYPE_CHECKING:
    from nvmf.initiator import Controller

pytestmark = pytest.mark.usefixtures("need_client")

Spoil = Callable[[Connection, bytes], None]


def response(connection: Connection, cid: int, *, size: int = 16, status: int = 0) -> None:
    """Send a response capsule with these fields."""
    cqe = struct.pack("<QHHHH", 0, 0, connection.qid, cid, status)
    connection.peer.send(cqe[:size].ljust(size, b"\0"))


def unknown_cid(connection: Connection, capsule: bytes) -> None:
    """Answer a command that does not exist."""
    response(connection, int.from_bytes(capsule[2:4], "little") ^ 0x4000)


def short_response(connection: Connection, capsule: bytes) -> None:
    """Send a response of eight bytes."""
    response(connection, int.from_bytes(capsule[2:4], "little"), size=8)


def closes(connection: Connection, capsule: bytes) -> None:
    """The target closes the connection."""
    connection.peer.sock.shutdown(socket.SHUT_RDWR)


def terminates(connection: Connection, capsule: bytes) -> None:
    """The target sends a Terminate."""
    connection.peer.terminate(0, 2, 7)


@pytest.mark.parametrize("spoil", [unknown_cid, short_response, closes, terminates])
async def test_lost(responder: NvmeResponder, controller: Controller, spoil: Spoil) -> None:
    """The error is ConnectionLost, in time; no data is returned that was not received."""
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
"""A function of CNS, NSID and correct Identify data, which it falsifies."""


def same_list(cns: int, nsid: int, data: bytearray) -> None:
    """Return a full list of namespaces, the same for any starting NSID."""
    if cns == 2:
        data[:] = struct.pack("<1024I", *range(1, 1025))


def endless_list(cns: int, nsid: int, data: bytearray) -> None:
    """Return further namespaces after each list."""
    if cns == 2:
        data[:] = struct.pack("<1024I", *range(nsid + 1, nsid + 1025))


@pytest.mark.parametrize("lie", [same_list, endless_list])
async def test_lists_without_end(responder: NvmeResponder, lie: Lie) -> None:
    """The client reports an error instead of looping endlessly."""
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
    """Return MDTS and IOCCSZ larger than any command allows."""
    if cns == 1:
        data[77] = 255
        struct.pack_into("<I", data, 1792, 0xFFFFFFFF)


async def test_limits_beyond_all_measure(responder: NvmeResponder) -> None:
    """No command is longer than its descriptor permits (Base 2.0, 4.1.2.1: 24 bits)."""
    responder.identify = partial(telling, boundless)
    async with connected(responder) as one:
        assert one.max_transfer == (1 << 24) - 1
        await good(one)


async def test_unanswered(responder: NvmeResponder) -> None:
    """There is no response: the I/O timeout ends the command."""
    from nvmf.initiator import ConnectionLost

    responder.hook = lambda connection, capsule: bool(connection.qid and capsule[0] == Io.READ)
    async with connected(responder, io_timeout=1.0) as one:
        with pytest.raises(ConnectionLost):
            await one.namespace(1).read(0, 1)


async def test_response_twice(responder: NvmeResponder, controller: Controller) -> None:
    """A second response is not used: the connection ends, or it is ignored; no data is mixed up."""
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
    """The error names the status of the reject, for each status."""
    from nvmf.initiator import ConnectError, connect

    responder.refuse = lambda start: nvme.cm_reject(status)
    with pytest.raises(ConnectError) as error:
        await connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp")
    assert error.value.reject_sts == status
    assert len(str(error.value)) > 20


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\x63\0", b"\1\0\4\0", bytes(200)])
async def test_strange_rejects(responder: NvmeResponder, data: bytes) -> None:
    """Private data of a reject that is not in the format of NVMe-oF."""
    from nvmf.initiator import ConnectError, connect

    responder.refuse = lambda start: data
    with pytest.raises(ConnectError):
        await connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", device="iwarp")


async def test_room_for_one_command(responder: NvmeResponder) -> None:
    """On the admin queue an event request would occupy it; for an I/O queue one entry is enough."""
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
