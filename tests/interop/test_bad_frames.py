# SPDX-License-Identifier: BSD-3-Clause
"""Bad FPDUs, DDP segments and RDMAP messages: the correct Terminate, without effect on others."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from support.served import SUBNQN, Served
from wire import mpa, nvme, rdmap
from wire.errors import ConnectionEnded
from wire.host import NvmeHost, Queue, Terminated
from wire.nvme import Io
from wire.rdmap import LAST, TAGGED, Op, ReadRequest

pytestmark = pytest.mark.usefixtures("unharmed")

Code = tuple[int, int, int]
"""Layer, error type and error code of a Terminate, RFC 5040 4.8."""

DDP_STAG, DDP_BOUNDS, DDP_FOREIGN, DDP_WRAP, DDP_VERSION = ((1, 1, code) for code in range(5))
QN, NO_BUFFER, MSN, MO, TOO_LONG, DDP_VERSION_U = ((1, 2, code) for code in range(1, 7))
STAG, BOUNDS, ACCESS, FOREIGN, WRAP = ((0, 1, code) for code in range(5))
NO_INVALIDATE = ((0, 1, 9), (0, 2, 9))
RDMAP_VERSION, OPCODE, STREAM = (0, 2, 5), (0, 2, 6), (0, 2, 7)
CRC_ERROR = (2, 0, 2)
ANY: tuple[Code, ...] = ()
"""Any code: the RFCs name none, but the stream must end."""


@pytest.fixture
def queue(target: Served) -> Iterator[Queue]:
    """An I/O queue of a separate host."""
    with NvmeHost(target.address, SUBNQN).connect() as host:
        yield host.queues[1]


def send(ctrl: int, *, rsvd: int = 0, qn: int = 0, msn: int | None = None, mo: int = 0,
         payload: bytes = bytes(64)) -> Callable[[Queue], bytes]:  # fmt: skip
    """Return a function that builds an untagged segment with any control bits; msn is added to the
    correct one.
    """

    def build(queue: Queue) -> bytes:
        right = queue.peer.msn.get(qn, 1)
        number = right + (msn or 0) & 0xFFFFFFFF
        return struct.pack(">HIIII", ctrl, rsvd, qn, number, mo) + payload

    return build


def raw(data: bytes) -> Callable[[Queue], bytes]:
    """Return a function that builds this ULPDU."""
    return lambda queue: data


def tagged(op: int, stag: int, to: int, payload: bytes = bytes(8), versions: int = rdmap.VERSIONS,
           last: bool = True) -> Callable[[Queue], bytes]:  # fmt: skip
    """Return a function that builds a tagged segment."""
    return raw(rdmap.encode_tagged(op, stag, to, payload, versions=versions, last=last))


def read_request(stag: int, to: int = 0, size: int = 64) -> bytes:
    """Return a function that builds the header of an RDMA READ of the target's memory."""
    return ReadRequest(0x1234, 0, size, stag, to).encode()


@dataclass(frozen=True)
class Row:
    """A ULPDU and the Terminate that must follow."""

    name: str
    build: Callable[[Queue], bytes]
    codes: tuple[Code, ...]
    section: str


V = rdmap.VERSIONS
ROWS = [
    Row("DDP version 0", send(LAST | 0x0040 | 3), (DDP_VERSION_U,), "RFC 5041 4.1, 8.2"),
    Row("DDP version 2", send(LAST | 0x0240 | 3), (DDP_VERSION_U,), "RFC 5041 4.1, 8.2"),
    Row("DDP version 3", send(LAST | 0x0340 | 3), (DDP_VERSION_U,), "RFC 5041 4.1, 8.2"),
    Row("DDP version 0, tagged", tagged(0, 1, 0, versions=0x0040), (DDP_VERSION,), "RFC 5041 8.2"),
    Row("RDMAP version 0", send(LAST | 0x0100 | 3), (RDMAP_VERSION,), "RFC 5040 4.1, 7.2"),
    Row("RDMAP version 2", send(LAST | 0x0180 | 3), (RDMAP_VERSION,), "RFC 5040 4.1, 7.2"),
    *(
        Row(f"opcode {op}", send(LAST | V | op), (OPCODE,), "RFC 5040 4.1, 7.2")
        for op in (8, 9, 12, 15)
    ),
    Row("an untagged WRITE", send(LAST | V | 0), (OPCODE,), "RFC 5040 figure 4"),
    Row("an untagged READ RESPONSE", send(LAST | V | 2), (OPCODE,), "RFC 5040 figure 4"),
    Row("a tagged SEND", tagged(3, 1, 0), (OPCODE, DDP_STAG), "RFC 5040 figure 4"),
    Row("a tagged TERMINATE", tagged(7, 1, 0), (OPCODE, DDP_STAG), "RFC 5040 figure 4"),
    Row("queue 3", send(LAST | V | 3, qn=3), (QN,), "RFC 5041 8.2"),
    Row("queue 2^32-1", send(LAST | V | 3, qn=0xFFFFFFFF), (QN,), "RFC 5041 8.2"),
    Row("a SEND on queue 1", send(LAST | V | 3, qn=1), (OPCODE, QN, NO_BUFFER), "RFC 5040 4.2"),
    Row("a TERMINATE on queue 0", send(LAST | V | 7), (OPCODE, QN), "RFC 5040 4.2"),
    Row("the same MSN again", send(LAST | V | 3, msn=-1), (MSN,), "RFC 5041 8.2"),
    Row("a skipped MSN", send(LAST | V | 3, msn=1), (MSN, NO_BUFFER), "RFC 5041 8.2"),
    Row("an MSN far away", send(LAST | V | 3, msn=1 << 31), (MSN, NO_BUFFER), "RFC 5041 8.2"),
    Row("a message that begins at 64", send(LAST | V | 3, mo=64), (MO,), "RFC 5041 8.2"),
    Row(
        "a message offset of 2^32-1", send(LAST | V | 3, mo=0xFFFFFFFF), (MO, TOO_LONG), "5041 8.2"
    ),
    Row("a SEND of 60000 bytes", send(LAST | V | 3, payload=bytes(60000)), (TOO_LONG,), "5041 8.2"),
    Row("no ULPDU", raw(b""), ANY, "RFC 5044 4.1: no DDP header fits"),
    Row("a ULPDU of 1 byte", raw(b"\x41"), ANY, "RFC 5041 4.1"),
    Row("control bits only", raw(b"\x41\x43"), ANY, "RFC 5041 4.1"),
    Row("half an untagged header", raw(rdmap.encode_untagged(3, b"", msn=2)[:9]), ANY, "5041 4.3"),
    Row("17 bytes of untagged header", raw(rdmap.encode_untagged(3, b"", msn=2)[:17]), ANY, "4.3"),
    Row("13 bytes of tagged header", raw(rdmap.encode_tagged(0, 1, 0, b"")[:13]), ANY, "5041 4.2"),
    Row("a WRITE to STag 1", tagged(0, 1, 0), (DDP_STAG,), "RFC 5041 8.1"),
    Row("a WRITE to STag 0", tagged(0, 0, 0), (DDP_STAG,), "RFC 5041 8.1"),
    Row("a WRITE to STag 2^32-1", tagged(0, 0xFFFFFFFF, 0), (DDP_STAG,), "RFC 5041 8.1"),
    Row("a WRITE that wraps", tagged(0, 1, (1 << 64) - 4), (DDP_STAG, DDP_WRAP), "RFC 5041 8.1"),
    Row("a WRITE without end", tagged(0, 0xABC, 0, last=False), (DDP_STAG,), "RFC 5041 8.1"),
    Row("a READ RESPONSE for nobody", tagged(2, 1, 0), (DDP_STAG, OPCODE, STREAM), "RFC 5040 5.2"),
    Row(
        "a READ REQUEST of STag 1",
        send(LAST | V | 1, qn=1, payload=read_request(1)),
        (STAG, NO_BUFFER),
        "RFC 5040 7.1; 6.1 where IRD is 0",
    ),
    Row(
        "a READ REQUEST of STag 0",
        send(LAST | V | 1, qn=1, payload=read_request(0)),
        (STAG, NO_BUFFER),
        "RFC 5040 7.1",
    ),
    Row(
        "a READ REQUEST on queue 0",
        send(LAST | V | 1, payload=read_request(1)),
        (OPCODE, QN),
        "RFC 5040 4.2",
    ),
    Row(
        "a READ REQUEST out of order",
        send(LAST | V | 1, qn=1, msn=1, payload=read_request(1)),
        (MSN, NO_BUFFER),
        "RFC 5041 8.2",
    ),
    Row(
        "a READ REQUEST of 27 bytes",
        send(LAST | V | 1, qn=1, payload=read_request(1)[:27]),
        ANY,
        "RFC 5040 4.4",
    ),
    Row(
        "a READ REQUEST of 29 bytes",
        send(LAST | V | 1, qn=1, payload=read_request(1) + b"\0"),
        ANY,
        "RFC 5040 4.4",
    ),
    Row(
        "a READ REQUEST in two segments",
        send(V | 1, qn=1, payload=read_request(1)[:14]),
        ANY,
        "RFC 5040 4.4",
    ),
    Row(
        "an invalidation of STag 1",
        send(LAST | V | 4, rsvd=1),
        (*NO_INVALIDATE, STAG),
        "RFC 5040 7.1",
    ),
    Row(
        "an invalidation of STag 0, solicited",
        send(LAST | V | 6, rsvd=0),
        (*NO_INVALIDATE, STAG),
        "RFC 5040 7.1",
    ),
]


@pytest.mark.feature("embedded")
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
@pytest.mark.parametrize("crc", [False, True], ids=["plain", "crc"])
def test_terminated(target: Served, row: Row, crc: bool) -> None:
    """The stream ends with the Terminate that the RFC requires."""
    with NvmeHost(target.address, SUBNQN, crc=crc).connect() as host:
        queue = host.queues[1]
        queue.peer.send_ulpdu(row.build(queue))
        check_end(queue, row.codes)


def check_end(queue: Queue, codes: tuple[Code, ...]) -> None:
    """Check that the stream ends with a Terminate, with one of these codes if any are given."""
    found = queue.peer.ending()
    assert found is not None, "the stream ended without a Terminate (RFC 5040 6.2)"
    if codes:
        assert (found.layer, found.etype, found.code) in codes, str(found)


@pytest.mark.parametrize("where", [-1, -4, 0, 1, 2, 20, 30])
def test_bad_crc(target: Served, where: int) -> None:
    """A wrong bit in the CRC, or in the bytes that it covers, is an LLP MPA CRC error (RFC 5044
    4.4).
    """
    with NvmeHost(target.address, SUBNQN, crc=True).connect() as host:
        queue = host.queues[1]
        ulpdu = rdmap.encode_untagged(Op.SEND, nvme.sqe(Io.FLUSH, nsid=1), msn=queue.peer.msn[0])
        fpdu = bytearray(mpa.encode_fpdu(ulpdu, True))
        if where in (0, 1):
            # A wrong length moves the CRC: send enough bytes for a check.
            fpdu[where] ^= 1
            fpdu += bytes(600)
        else:
            fpdu[where] ^= 0x10
        queue.peer.send_raw(bytes(fpdu))
        check_end(queue, (CRC_ERROR,))


def test_crc_field_without_crc(queue: Queue) -> None:
    """With CRC off the field is ignored (RFC 5044 4.4)."""
    ulpdu = rdmap.encode_untagged(Op.SEND, nvme.sqe(Io.FLUSH, cid=9, nsid=1), msn=queue.peer.msn[0])
    queue.peer.msn[0] += 1
    queue.peer.send_raw(mpa.encode_fpdu(ulpdu, False)[:-4] + b"\xff\xff\xff\xff")
    assert queue.response(9).status == 0


def test_wrong_second_segment(queue: Queue) -> None:
    """MO of a later segment is checked as well."""
    capsule = nvme.sqe(Io.FLUSH, nsid=1)
    msn = queue.peer.msn[0]
    queue.peer.send_ulpdu(rdmap.encode_untagged(3, capsule[:32], msn=msn, last=False))
    queue.peer.send_ulpdu(rdmap.encode_untagged(3, capsule[32:], msn=msn, mo=33))
    check_end(queue, (MO,))


def test_another_message_within(queue: Queue) -> None:
    """A message begins before the present one has ended."""
    msn = queue.peer.msn[0]
    queue.peer.send_ulpdu(rdmap.encode_untagged(3, bytes(32), msn=msn, last=False))
    queue.peer.send_ulpdu(rdmap.encode_untagged(3, bytes(64), msn=msn + 1))
    check_end(queue, (MSN, NO_BUFFER, MO))


def test_opcode_changes_within(queue: Queue) -> None:
    """Segments of one message must have one opcode; RFC 5040 names no error for other ones."""
    capsule = nvme.sqe(Io.FLUSH, cid=7, nsid=1)
    msn = queue.peer.msn[0]
    queue.peer.send_ulpdu(rdmap.encode_untagged(3, capsule[:32], msn=msn, last=False))
    queue.peer.send_ulpdu(rdmap.encode_untagged(5, capsule[32:], msn=msn, mo=32))
    try:
        assert queue.response(7).status == 0
    except Terminated:
        assert queue.peer.ending() is None


def test_capsule_in_segments(queue: Queue) -> None:
    """A capsule may come in several segments, each in several TCP segments."""
    data = bytes(range(256)) * 4
    capsule = nvme.sqe(Io.WRITE, nsid=1, cid=5, sgl=nvme.in_capsule(0, 1024), cdw=(50, 0, 1))
    queue.peer.send(capsule + data, segment=100)
    assert queue.response(5).status == 0
    cqe, found = queue.call_read(Io.READ, 1024, nsid=1, cdw=(50, 0, 1))
    assert (cqe.status, found) == (0, data)


def test_message_grows_beyond_its_buffer(queue: Queue) -> None:
    """Each segment fits an FPDU, but the message does not fit a capsule."""
    msn = queue.peer.msn[0]
    with contextlib.suppress(ConnectionError):
        for mo in range(0, 1 << 20, 8192):
            ulpdu = rdmap.encode_untagged(3, bytes(8192), msn=msn, mo=mo, last=False)
            queue.peer.send_ulpdu(ulpdu)
    with contextlib.suppress(ConnectionEnded):
        check_end(queue, (TOO_LONG,))


def test_terminate_from_the_host(queue: Queue) -> None:
    """A Terminate is not answered, and ends the connection (RFC 5040 5.4)."""
    queue.peer.terminate(0, 2, 7)
    assert queue.peer.ending() is None


@pytest.mark.parametrize("size", [0, 1, 3])
def test_truncated_terminate(queue: Queue, size: int) -> None:
    """A Terminate too short for its control field ends the connection like a complete one."""
    queue.peer.send_ulpdu(rdmap.encode_untagged(7, bytes(size), msn=1, qn=rdmap.QN_TERMINATE))
    queue.peer.ending()


@pytest.mark.feature("embedded")
@pytest.mark.parametrize("cut", [1, 2, 3, 19, 20, 40, 87])
@pytest.mark.parametrize("how", ["fin", "rst"])
def test_cut_within_a_frame(queue: Queue, cut: int, how: str) -> None:
    """A host that disconnects within an FPDU."""
    ulpdu = rdmap.encode_untagged(3, nvme.sqe(Io.FLUSH, nsid=1), msn=queue.peer.msn[0])
    queue.peer.send_raw(mpa.encode_fpdu(ulpdu, False)[:cut])
    if how == "rst":
        queue.peer.reset()
    else:
        queue.peer.close()


def test_zero_length_write(queue: Queue) -> None:
    """For a WRITE of no bytes the STag is not checked (RFC 5040 5.1); a target may also refuse
    it.
    """
    queue.peer.send_ulpdu(rdmap.encode_tagged(Op.WRITE, 1, 0, b""))
    queue.submit(nvme.sqe(Io.FLUSH, nsid=1, cid=77))
    try:
        assert queue.response(77).status == 0
    except Terminated:
        assert queue.peer.ending() is None


def test_tagged_bit_is_the_first() -> None:
    """The meaning of the bits in the rows above."""
    assert (TAGGED, LAST, V) == (0x8000, 0x4000, 0x0140)
