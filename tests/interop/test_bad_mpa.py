# SPDX-License-Identifier: BSD-3-Clause
"""Invalid connection setups: TCP bytes that are not MPA, invalid MPA frames, invalid CM private
data.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.served import HANDSHAKE_MS, SUBNQN, Served, config
from support.witness import Witness
from wire import mpa, nvme
from wire.errors import ConnectionEnded, Rejected
from wire.host import NvmeHost, Queue
from wire.nvme import Reject
from wire.peer import TIMEOUT, IwarpPeer

pytestmark = pytest.mark.usefixtures("unharmed")

GOOD = mpa.enhanced_data(128, 0, nvme.cm_request(0, 32, 31))


def request(
    bits: int = 0x1002, data: bytes = GOOD, key: bytes = mpa.REQUEST_KEY, length: int | None = None
) -> bytes:
    """Return an MPA request with an error."""
    return key + struct.pack(">HH", bits, len(data) if length is None else length) + data


@dataclass(frozen=True)
class Row:
    """Bytes of an initiator that must not be accepted."""

    name: str
    data: bytes
    section: str
    hang_up: bool = False
    """Whether the initiator closes its side afterwards."""


REFUSED = [
    Row("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "RFC 5044 7.1.1"),
    Row("an NVMe/TCP ICReq", b"\0\0\x80\0\x80\0\0\0".ljust(128, b"\0"), "RFC 5044 7.1.1"),
    Row("a wrong key", request(key=b"MPA ID Req Fram\0"), "RFC 5044 7.1.1"),
    Row("a reply for a request", request(key=mpa.REPLY_KEY), "RFC 5044 7.1.1"),
    Row("revision 3", request(0x1003), "RFC 5044 7.1.1, RFC 6581 9"),
    Row("revision 255", request(0x10FF), "RFC 5044 7.1.1, RFC 6581 9"),
    Row("markers", request(0x9002), "RFC 5044 7.1.1: no markers here, so no connection"),
    Row("513 bytes announced", request(data=GOOD.ljust(513, b"\0")), "RFC 5044 7.1.1"),
    Row("65535 bytes announced", request(length=0xFFFF), "RFC 5044 7.1.1"),
    Row("no room for IRD and ORD", request(data=b"\0\x80"), "RFC 6581 9.1"),
    Row("nothing after S", request(data=b""), "RFC 6581 9.1"),
    Row("an end within the key", mpa.REQUEST_KEY[:7], "RFC 5044 7.1.1", hang_up=True),
    Row("an end within the header", request()[:18], "RFC 5044 7.1.1", hang_up=True),
    Row("an end within the private data", request()[:40], "RFC 5044 7.1.1", hang_up=True),
    Row("an end at once", b"", "RFC 5044 7.1.1", hang_up=True),
]


def names(rows: list[Row]) -> list[str]:
    """Names for pytest."""
    return [row.name for row in rows]


def outcome(peer: IwarpPeer) -> mpa.StartFrame | None:
    """Return the reply, or None if the connection ended without one."""
    try:
        reply = peer.receive_start()
    except ConnectionEnded:
        return None
    with contextlib.suppress(ConnectionEnded, TimeoutError):
        peer.event(0.5 if not reply.bits & mpa.REJECT else TIMEOUT)
    return reply


@pytest.mark.feature("embedded")
@pytest.mark.parametrize("row", REFUSED, ids=names(REFUSED))
def test_refused(target: Served, row: Row) -> None:
    """The connection is never accepted: it ends, possibly after a reject."""
    peer = IwarpPeer(socket.create_connection(target.address))
    with contextlib.suppress(ConnectionError):
        peer.send_raw(row.data)
    if row.hang_up:
        peer.sock.shutdown(socket.SHUT_WR)
    reply = outcome(peer)
    peer.close()
    assert reply is None or reply.bits & mpa.REJECT, f"{row.section}: accepted"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[Served]:
    """A target that waits at most a second for a request."""
    text = config().replace(str(HANDSHAKE_MS), "1000")
    with Served(tmp_path_factory.mktemp("impatient"), text) as one:
        yield one.wait_ready()


@pytest.mark.parametrize("sent", [0, 10, 20, 30])
def test_silence(impatient: Served, sent: int) -> None:
    """An initiator that stops within its request does not hold a connection forever."""
    peer = IwarpPeer(socket.create_connection(impatient.address))
    peer.send_raw(request()[:sent])
    assert outcome(peer) is None
    peer.close()


def test_reset_in_handshake(target: Served) -> None:
    """The host sends RST at different points of the handshake."""
    for sent in (0, 1, 16, 20, 55, 56):
        peer = IwarpPeer(socket.create_connection(target.address))
        peer.send_raw(request()[:sent])
        peer.reset()


@pytest.mark.parametrize("size", [1, 3, 7])
def test_in_pieces(target: Served, size: int) -> None:
    """The request may arrive in pieces: TCP has no records."""
    peer = IwarpPeer(socket.create_connection(target.address))
    for offset in range(0, len(request()), size):
        peer.send_raw(request()[offset : offset + size])
        time.sleep(0.001)
    reply = peer.receive_start()
    peer.check_reply(reply, 0x1002)
    assert not reply.bits & mpa.REJECT
    assert reply.application_data[:4] == struct.pack("<HH", 0, 32)
    peer.close()


def test_command_behind_the_request(target: Served) -> None:
    """RFC 5044 7.1.2 forbids an FPDU before the reply; it is refused or handled later."""
    peer = IwarpPeer(socket.create_connection(target.address))
    peer.send_raw(request())
    peer.send(nvme.property_get(0))
    reply = outcome(peer)
    assert reply is None or reply.reply
    peer.close()


@dataclass(frozen=True)
class Private:
    """CM private data and the reject that must follow."""

    name: str
    data: bytes
    status: Reject
    ird: int = 128
    ord_: int = 0


REJECTED = [
    Private("no private data", b"", Reject.LENGTH),
    Private("31 bytes", nvme.cm_request(0, 32, 31, size=31), Reject.LENGTH),
    Private("8 bytes", nvme.cm_request(0, 32, 31, size=8), Reject.LENGTH),
    Private("record format 1", nvme.cm_request(0, 32, 31, recfmt=1), Reject.RECFMT),
    Private("record format ffff", nvme.cm_request(0, 32, 31, recfmt=0xFFFF), Reject.RECFMT),
    Private("queue 65535", nvme.cm_request(0xFFFF, 32, 31, 1), Reject.QID),
    Private("an admin queue of 129", nvme.cm_request(0, 129, 128), Reject.HSQSIZE),
    Private("an admin queue of 65536", nvme.cm_request(0, 32, 0xFFFF), Reject.HSQSIZE),
    Private("an I/O queue of 65536", nvme.cm_request(1, 32, 0xFFFF, 1), Reject.HSQSIZE),
    Private("no room for responses", nvme.cm_request(0, 0, 31), Reject.HRQSIZE),
    Private("no inbound RDMA READ", nvme.cm_request(0, 32, 31), Reject.IRD, ird=0),
]


@pytest.mark.parametrize("row", REJECTED, ids=[row.name for row in REJECTED])
def test_rejected(target: Served, row: Private) -> None:
    """Private data of 4 bytes has the reason (RDMA Transport 1.0, figure 9)."""
    with pytest.raises(Rejected) as refusal:
        IwarpPeer.connect(target.address, row.data, ird=row.ird, ord_=row.ord_).close()
    data = refusal.value.private_data
    assert len(data) >= 4, f"private data of the reject: {data.hex()}"
    recfmt, status = struct.unpack_from("<HH", data)
    assert (recfmt, Reject(status).name) == (0, row.status.name)


LONGER = [33, 56, 252, 508]


@pytest.mark.parametrize("size", LONGER)
def test_longer_private_data(target: Served, size: int) -> None:
    """A CM may deliver more bytes than were sent, zero-padded: only a shorter length is wrong."""
    data = nvme.cm_request(0, 32, 31).ljust(size, b"\0")
    peer = IwarpPeer.connect(target.address, data)
    assert peer.start is not None
    assert peer.start.application_data[:4] == struct.pack("<HH", 0, 32)
    peer.close()


def test_longer_private_data_of_revision_1(target: Served) -> None:
    """RFC 5044 7.1.1 allows 512 bytes."""
    data = nvme.cm_request(0, 32, 31).ljust(512, b"\0")
    IwarpPeer.connect(target.address, data, revision=1).close()


@pytest.mark.feature("embedded")
def test_outbound_reads_of_a_host(target: Served) -> None:
    """A host that requests RDMA READs learns from the reply or a reject that it may not use any."""
    refused: bytes | None = None
    try:
        peer = IwarpPeer.connect(target.address, nvme.cm_request(0, 32, 31), ord_=0x3FFE)
    except Rejected as refusal:
        refused = refusal.private_data
    else:
        peer.close()
        assert peer.start is not None
        ird = peer.start.words[0] & mpa.DEPTH_MASK
        assert ird < 0x3FFE, "the reply promises more inbound reads than any queue pair has"
    assert refused is None or refused[:4] == nvme.cm_reject(Reject.ORD)


def test_depths_left_open(target: Served) -> None:
    """RFC 6581 9.1: all ones is no demand, and the answer is all ones."""
    data = nvme.cm_request(0, 32, 31)
    peer = IwarpPeer.connect(target.address, data, ird=0x3FFF, ord_=0x3FFF)
    assert peer.start is not None
    assert [word & mpa.DEPTH_MASK for word in peer.start.words] == [0x3FFF, 0x3FFF]
    queue = Queue(peer, 0, 32)
    assert queue.call(nvme.property_get(0, 8)).status == nvme.Status.COMMAND_SEQUENCE_ERROR
    queue.close()


@pytest.mark.parametrize(("ird", "expected"), [(1, 1), (4, 4), (0x3FFE, None)])
def test_reply_words(target: Served, ird: int, expected: int | None) -> None:
    """The target never announces more outbound reads than the host accepts inbound."""
    peer = IwarpPeer.connect(target.address, nvme.cm_request(0, 32, 31), ird=ird)
    assert peer.start is not None
    ord_ = peer.start.words[1] & mpa.DEPTH_MASK
    assert 1 <= ord_ <= ird
    assert expected is None or ord_ == expected
    peer.close()


@pytest.mark.feature("embedded")
def test_revision_1(target: Served) -> None:
    """RFC 5044 without RFC 6581: accepted in revision 1, or refused, but never with a different
    one.
    """
    try:
        peer = IwarpPeer.connect(target.address, nvme.cm_request(0, 32, 31), revision=1)
    except (Rejected, ConnectionEnded):
        return
    queue = Queue(peer, 0, 32)
    assert queue.call(nvme.property_get(0, 8)).status == nvme.Status.COMMAND_SEQUENCE_ERROR
    queue.close()


def test_many_at_once(target: Served) -> None:
    """Two hundred silent connections do not prevent the next host from connecting."""
    silent = [socket.create_connection(target.address) for _ in range(200)]
    Queue.open(target.address).close()
    for one in silent:
        one.close()


def hostile(kind: int, address: tuple[str, int]) -> socket.socket:
    """Return a connection that will not be established, in one of six ways."""
    sock = socket.create_connection(address)
    whole = request(data=GOOD.ljust(512, b"\0"))
    with contextlib.suppress(ConnectionError):
        sock.sendall(
            (b"", mpa.REQUEST_KEY[:9], request(length=512), whole[:-1], whole, whole)[kind]
        )
        if kind in (3, 4):  # in the middle of the request, or after it
            sock.shutdown(socket.SHUT_WR)
    return sock


def test_a_thousand_at_once(target: Served, bystander: Witness) -> None:
    """Handshakes that are silent, slow, half-closed, or claim a false length do not affect other
    hosts.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    socks: list[socket.socket] = []
    try:
        for number in range(1000):
            # For one complete one, four are silent or slow.
            socks.append(hostile(number % 4 if number % 5 else 4 + number % 2, target.address))
            if number % 100 == 99:
                bystander.check()
                Queue.open(target.address).close()
        with NvmeHost(target.address, SUBNQN).connect() as host:
            host.write(0, b"y" * 512)
            assert host.read(0, 1) == b"y" * 512
    finally:
        for sock in socks:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_reply_is_not_early(target: Served) -> None:
    """RFC 5044 7.1.2: a responder sends no FPDU before the initiator's first."""
    peer = IwarpPeer.connect(target.address, nvme.cm_request(0, 32, 31))
    with pytest.raises(TimeoutError):
        peer.event(0.3)
    peer.close()


@pytest.mark.feature("embedded")
def test_crc_on_request(target: Served) -> None:
    """CRC is used in both directions if the initiator requests it (RFC 5044 7.1.1)."""
    queue = Queue.open(target.address, crc=True)
    assert queue.peer.crc
    assert queue.call(nvme.property_get(0, 8)).status == nvme.Status.COMMAND_SEQUENCE_ERROR
    queue.close()
