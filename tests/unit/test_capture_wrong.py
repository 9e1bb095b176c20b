# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof explain: each invalid exchange is reported with its violation and the section."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvmf.capture.dialogue import Dialogue
from nvmf.capture.explain import explain
from support import pcaps
from support.pcaps import Exchange
from wire import nvme, rdmap
from wire.nvme import Admin, Io


def only(exchange: Exchange) -> Dialogue:
    found = explain(pcaps.pcap(exchange.packets))
    assert not found.notes
    (dialogue,) = found.dialogues
    return dialogue


def violations(exchange: Exchange) -> list[tuple[str, str]]:
    return [(one.sentence, one.section) for one in only(exchange).faults if one.section]


def test_a_right_exchange() -> None:
    for crc in (False, True):
        good = Exchange(crc)
        good.begin()
        good.connect()
        good.command(Admin.IDENTIFY, 1, cdw10=1, length=4096, kind=0x4F)
        good.write(0x11, 0x1000, bytes(4096))
        good.respond(1, key=0x11)
        good.command(Admin.KEEP_ALIVE, 2)
        good.respond(2)
        good.raw(True, b"", 0x11)
        found = only(good)
        assert not found.faults
        assert found.ended == "the host closes it"
        assert [one.status for one in found.commands] == ["Successful Completion"] * 3


# ---- wrong exchanges ----


def short_private_data(x: Exchange) -> None:
    x.begin(b"\0" * 8)


def record_format(x: Exchange) -> None:
    x.begin(b"\7\0\0\0\x20\0\x1f\0" + bytes(24))


def no_connect(x: Exchange) -> None:
    x.begin()
    x.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)


def two_connects(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(nvme.FABRICS, 4, nsid=1, cdw11=31, length=1024)


def other_qid(x: Exchange) -> None:
    x.begin()
    x.connect(qid=3)


def other_size(x: Exchange) -> None:
    x.begin()
    x.connect(sqsize=15)


def prps(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.KEEP_ALIVE, 1, flags=0)


def same_cid(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.KEEP_ALIVE, 1)
    x.command(Admin.KEEP_ALIVE, 1)


def unknown_cid(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.respond(9)


def full_queue(x: Exchange) -> None:
    x.begin()
    x.connect()
    for cid in range(33):
        x.command(Admin.ASYNC_EVENT, 100 + cid)


def short_capsule(x: Exchange) -> None:
    x.begin()
    x.send(True, bytes(60))


def long_response(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.KEEP_ALIVE, 1)
    x.send(False, bytes(12) + b"\1\0\0\0" + bytes(4))


def uninvited_invalidate(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.KEEP_ALIVE, 1)
    x.respond(1, key=0x77)


def nothing_read(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)
    x.write(0x11, 0x1000, bytes(512))
    x.respond(1)


def outside(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)
    x.write(0x11, 0x1800, bytes(4096))


def foreign_key(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)
    x.write(0x12, 0x1000, bytes(4096))


def reads_a_read(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)
    x.read(0x11, 0x1000, 4096)


def writes_a_write(x: Exchange) -> None:
    x.begin(b"\0\0\1\0\x20\0\x1f\0" + bytes(24))
    x.connect(qid=1)
    x.command(Io.WRITE, 1, nsid=1, length=512)
    x.write(0x11, 0x1000, bytes(512))


def host_writes(x: Exchange) -> None:
    x.begin()
    x.write(0x5, 0, bytes(16), host=True)


def wrong_msn(x: Exchange) -> None:
    x.begin()
    x.connect()
    x.send(True, bytes(1) + b"\x40" + bytes(62), msn=9)


def target_first(x: Exchange) -> None:
    x.begin()
    x.respond(0)


def reserved_bits(x: Exchange) -> None:
    x.begin(bits=0x0101)


def not_mpa(x: Exchange) -> None:
    x.raw(True, b"MPA ID Req Frame"[:15] + b"!" + bytes(40))


def much_private_data(x: Exchange) -> None:
    x.raw(True, b"MPA ID Req Frame\0\1\x02\x01" + bytes(40))


def wrong_version(x: Exchange) -> None:
    x.begin()
    x.fpdu(True, b"\x40\x43" + bytes(20))


def wrong_queue(x: Exchange) -> None:
    x.begin()
    x.fpdu(True, b"\x41\x43" + bytes(4) + b"\0\0\0\5" + bytes(8))


def damaged_crc(x: Exchange) -> None:
    x.crc = True
    x.begin()
    x.raw(True, b"\0\x12\x41\x43" + bytes(16) + b"\1\2\3\4")


def crc_left_out(x: Exchange) -> None:
    x.begin(bits=0x4001)


WRONG: dict[Callable[[Exchange], None], tuple[str, str]] = {
    short_private_data: (
        "the request has 8 bytes of NVMe-oF private data, not 32", "RDMA Transport 1.0, 3.1",
    ),
    record_format: ("RECFMT of the request is 7, not 0", "RDMA Transport 1.0, 3.1"),
    no_connect: ("the first command is Identify: a queue begins with Connect", "Base 2.0, 3.3.2"),
    two_connects: ("a second Connect on the same queue", "Base 2.0, 3.3.2"),
    other_qid: (
        "Connect has QID 3, and the connection was requested for QID 0", "RDMA Transport 1.0, 3.1",
    ),
    other_size: (
        "Connect has SQSIZE 15, and the connection was requested with HSQSIZE 31",
        "RDMA Transport 1.0, 3.1",
    ),
    prps: (
        "PSDT of Keep Alive (CID 0x0001) is 00b: fabrics use SGLs, 01b", "Base 2.0, 3.3.3.1",
    ),
    same_cid: (
        "the CID 0x0001 of Keep Alive belongs to Keep Alive, which has no response yet",
        "Base 2.0, 3.3.3.1",
    ),
    unknown_cid: (
        "a response has CID 0x0009, which no outstanding command has", "Base 2.0, 3.3.3.2",
    ),
    full_queue: (
        "33 commands are outstanding in a queue of 32 entries", "Base 2.0, 3.3.2",
    ),
    short_capsule: ("a command capsule has 60 bytes, and an SQE has 64", "Base 2.0, 3.3.2"),
    long_response: ("a response capsule has 20 bytes, not 16", "Base 2.0, 3.3.2"),
    uninvited_invalidate: (
        "the response to Keep Alive (CID 0x0001) invalidates the key 0x77, which the command did "
        "not ask for",
        "RDMA Transport 1.0, 3.2",
    ),
    nothing_read: (
        "Identify (CID 0x0001, CNS 01h Controller) succeeds, but 512 of 4096 bytes were "
        "transferred",
        "Base 2.0, 4.1.2",
    ),
    outside: (
        "the controller's RDMA WRITE of 4096 bytes at 0x1800 (key 0x11) is not within the memory "
        "of an outstanding command",
        "RDMA Transport 1.0, 3.2",
    ),
    foreign_key: (
        "the controller's RDMA WRITE of 4096 bytes at 0x1000 (key 0x12) is not within the memory "
        "of an outstanding command",
        "RDMA Transport 1.0, 3.2",
    ),
    reads_a_read: (
        "the controller reads the memory of Identify, which has no data for it", "Base 2.0, 4.1.2",
    ),
    writes_a_write: (
        "the controller writes to the memory of Write, which reads no data", "Base 2.0, 4.1.2",
    ),
    host_writes: (
        "the host sends an RDMA WRITE of 16 bytes: only controllers transfer data by RDMA",
        "RDMA Transport 1.0, 3.2",
    ),
    wrong_msn: ("MSN 9 on queue 0, where 2 is next", "RFC 5041 5.1"),
    target_first: ("the target sends an FPDU before the host's first one", "RFC 5044 7.1.2"),
    reserved_bits: ("reserved bits of MPA are set: 0x0101", "RFC 5044 7.1.1"),
    not_mpa: (
        "the host begins with b'MPA ID Req Fram!', not with 'MPA ID Req Frame'", "RFC 5044 7.1.1",
    ),
    much_private_data: (
        "513 bytes of private data, and at most 512 are allowed", "RFC 5044 7.1.1",
    ),
    wrong_version: ("the DDP version is 0, not 1", "RFC 5041 4.1"),
    wrong_queue: ("opcode 3 on queue 5", "RFC 5040 4.3"),
    damaged_crc: ("the CRC of an FPDU of the host is 0x04030201, and wrong", "RFC 5044 4.4"),
    crc_left_out: ("the reply has CRC off, and the request asked for it", "RFC 5044 7.1.1"),
}  # fmt: skip


@pytest.mark.parametrize("write", WRONG, ids=lambda one: one.__name__)
def test_a_wrong_exchange(write: Callable[[Exchange], None]) -> None:
    """The first sentence names the violation and the section."""
    exchange = Exchange()
    write(exchange)
    assert violations(exchange)[0] == WRONG[write]


def test_a_rejected_connection() -> None:
    wrong = Exchange()
    wrong.raw(True, b"MPA ID Req Frame\0\1\0\x20" + bytes(32))
    wrong.raw(False, b"MPA ID Rep Frame\x20\1\0\4\0\0\4\0")
    found = only(wrong)
    assert found.rejected == "Invalid Host SQ Size"
    assert found.faults[-1].sentence == "the target rejects the connection: Invalid Host SQ Size"


def test_an_end_with_commands_outstanding() -> None:
    cut = Exchange()
    cut.begin()
    cut.connect()
    cut.command(Admin.IDENTIFY, 1, cdw10=1, length=4096)
    cut.command(Admin.ASYNC_EVENT, 2)
    cut.raw(False, b"", 0x14)
    assert [one.sentence for one in only(cut).faults] == [
        "the target resets it while commands had no response: 1 (Identify)"
    ]


def test_a_terminate() -> None:
    wrong = Exchange()
    wrong.begin()
    wrong.fpdu(
        False,
        rdmap.encode_untagged(rdmap.Op.TERMINATE, rdmap.encode_terminate(1, 2, 3), msn=1, qn=2),
    )
    assert "the target sends a Terminate: error of DDP, type 2, code 03h" in [
        one.sentence for one in only(wrong).faults
    ]
