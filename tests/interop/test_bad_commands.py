# SPDX-License-Identifier: BSD-3-Clause
"""Invalid commands: the status that the specification requires, and the queue continues."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from support.served import SUBNQN, Served
from wire import nvme
from wire.errors import ConnectionEnded
from wire.host import CAP, CC, CSTS, NvmeHost, Queue, expect, lba_words
from wire.memory import Region
from wire.nvme import Admin, Fctype, Io, Status
from wire.peer import ReadAsked
from wire.rdmap import Terminate

pytestmark = pytest.mark.usefixtures("unharmed")

BLOCKS = 64 * 2048
"""Size of the namespace: 64 MiB of 512 bytes."""
ALL = 0xFFFFFFFF
Build = Callable[[Region], bytes]
"""A function of a region of 8192 bytes that returns a capsule."""

OPCODE, FIELD, NAMESPACE = Status.INVALID_OPCODE, Status.INVALID_FIELD, Status.INVALID_NAMESPACE
LENGTH, TYPE, OFFSET = (
    Status.SGL_DATA_LENGTH_INVALID,
    Status.SGL_TYPE_INVALID,
    Status.SGL_OFFSET_INVALID,
)
MISSING = Status.ABORTED_MISSING_FUSED
RANGE = Status.LBA_OUT_OF_RANGE
OVERLAP = Status.OVERLAPPING_IO_RANGE
SIZE = Status(0x183)
"""The status of an I/O command: Command Size Limit Exceeded."""


@dataclass(frozen=True)
class Row:
    """A command and the statuses that are permitted."""

    name: str
    build: Build
    statuses: tuple[Status, ...]
    section: str


def keyed(region: Region, size: int, kind: int = 0x40) -> bytes:
    """Return a descriptor of the first bytes of the region."""
    return nvme.keyed(region.base, size, region.stag, kind=kind)


def io(opcode: int, size: int = 512, *, lba: int = 40, blocks: int = 1, nsid: int = 1,
       flags: int = 0x40, kind: int = 0x40, control: int = 0) -> Build:  # fmt: skip
    """Return a Read, Write, Compare, ... with a keyed descriptor of size bytes."""
    words = lba_words(lba, blocks, control)
    return lambda region: nvme.sqe(
        opcode, nsid=nsid, flags=flags, sgl=keyed(region, size, kind), cdw=words
    )


def sgl(opcode: int, descriptor: bytes, data: bytes = b"", blocks: int = 1) -> Build:
    """Return a command with any descriptor, and in-capsule data."""
    words = lba_words(40, blocks)
    return lambda region: nvme.sqe(opcode, nsid=1, sgl=descriptor, cdw=words) + data


def copy_from(slba: int, blocks: int) -> Build:
    """Return a Copy of one range to LBA 40."""
    return sgl(Io.COPY, nvme.in_capsule(0, 32), struct.pack("<8xQH14x", slba, blocks - 1))


def kind(value: int) -> Build:
    """Return a Write whose descriptor has this type byte and is otherwise correct."""
    return io(Io.WRITE, kind=value)


def plain(opcode: int, *cdw: int, nsid: int = 0, size: int = 0, flags: int = 0x40) -> Build:
    """Return a command with these dwords."""
    return lambda region: nvme.sqe(opcode, nsid=nsid, flags=flags, sgl=keyed(region, size), cdw=cdw)


def fixed(capsule: bytes) -> Build:
    """Return a capsule that is sent unchanged."""
    return lambda region: capsule


IO_ROWS = [
    Row("PSDT 00", io(Io.READ, flags=0x00), (FIELD,), "Fabrics 1.1 2.1: PRP is prohibited"),
    Row("PSDT 10", io(Io.READ, flags=0x80), (FIELD,), "Base 4.2: not on fabrics"),
    Row("PSDT 11", io(Io.READ, flags=0xC0), (FIELD,), "Base 4.2: reserved"),
    Row("first of a fused pair, a Read", io(Io.READ, flags=0x41), (FIELD,), "Base 3.4.2"),
    Row("FUSE 11", io(Io.COMPARE, flags=0x43), (FIELD,), "Base 4.2: reserved"),
    Row("second of a fused pair, alone", io(Io.WRITE, flags=0x42), (MISSING,), "Base 3.4.2"),
    Row("SGL data block", kind(0x00), (TYPE,), "RDMA Transport 1.0: keyed or offset only"),
    Row("SGL bit bucket", kind(0x10), (TYPE,), "Base 4.1.2"),
    Row("SGL segment", kind(0x20), (TYPE,), "Base 4.1.2"),
    Row("SGL last segment", kind(0x30), (TYPE,), "Base 4.1.2"),
    Row("SGL keyed, subtype 1", kind(0x41), (TYPE,), "Base 4.1.2"),
    Row("SGL keyed, subtype 5", kind(0x45), (TYPE,), "Base 4.1.2"),
    Row("SGL transport data block", kind(0x5A), (TYPE,), "Base 4.1.2: TCP's"),
    Row("SGL vendor", kind(0xF0), (TYPE,), "Base 4.1.2"),
    Row("SGL reserved", kind(0x70), (TYPE,), "Base 4.1.2"),
    Row("keyed too short", io(Io.READ, 256), (LENGTH,), "Base 4.1.2, 0Fh"),
    Row("keyed of 0", io(Io.READ, 0), (LENGTH,), "Base 4.1.2, 0Fh"),
    Row("keyed too long", io(Io.READ, 1024), (LENGTH,), "SGLS bit 18 is 0"),
    Row("keyed write too short", io(Io.WRITE, 256), (LENGTH,), "Base 4.1.2, 0Fh"),
    Row("keyed write too long", io(Io.WRITE, 1024), (LENGTH,), "SGLS bit 18 is 0"),
    Row(
        "in-capsule too short",
        sgl(Io.WRITE, nvme.in_capsule(0, 256), bytes(256)),
        (LENGTH,),
        "Base 4.1.2, 0Fh",
    ),
    Row(
        "in-capsule data that is not there",
        sgl(Io.WRITE, nvme.in_capsule(0, 512)),
        (OFFSET, LENGTH, FIELD),
        "what an earlier capsule left is nobody's",
    ),
    Row(
        "in-capsule data half there",
        sgl(Io.WRITE, nvme.in_capsule(0, 512), bytes(256)),
        (OFFSET, LENGTH, FIELD),
        "as above",
    ),
    Row(
        "in-capsule offset beyond",
        sgl(Io.WRITE, nvme.in_capsule(1 << 20, 512), bytes(512)),
        (OFFSET,),
        "Base 4.1.2, 16h",
    ),
    Row(
        "in-capsule offset that wraps",
        sgl(Io.WRITE, nvme.in_capsule((1 << 64) - 256, 512), bytes(512)),
        (OFFSET,),
        "Base 4.1.2, 16h",
    ),
    Row(
        "in-capsule length of 4 GiB",
        sgl(Io.WRITE, nvme.in_capsule(0, ALL), bytes(512)),
        (OFFSET, LENGTH),
        "Base 4.1.2, 16h",
    ),
    Row(
        "a read in the capsule",
        sgl(Io.READ, nvme.in_capsule(0, 512), bytes(512)),
        (FIELD, TYPE, OFFSET, LENGTH),
        "RDMA Transport: host to controller only",
    ),
    Row(
        "a list of descriptors at nowhere",
        sgl(Io.WRITE, nvme.in_capsule(1 << 16, 16, kind=0x31)),
        (OFFSET, TYPE, Status.INVALID_SGL_SEGMENT),
        "Base 4.1.2",
    ),
    Row(
        "a list of half a descriptor",
        sgl(Io.WRITE, nvme.in_capsule(0, 24, kind=0x31), bytes(24)),
        (LENGTH, TYPE, Status.INVALID_SGL_SEGMENT, Status.INVALID_SGL_COUNT),
        "Base 4.1.2",
    ),
    Row(
        "a list in a list",
        sgl(Io.WRITE, nvme.in_capsule(0, 16, kind=0x31), nvme.in_capsule(0, 16, kind=0x31)),
        (TYPE, LENGTH, Status.INVALID_SGL_SEGMENT),
        "Base 4.1.2",
    ),
    Row("beyond MDTS", io(Io.READ, 0xFFFFFF, blocks=65536), (FIELD, LENGTH), "Base 5.17, MDTS"),
    Row("write beyond MDTS", io(Io.WRITE, 0xFFFFFF, blocks=65536), (FIELD, LENGTH), "MDTS"),
    Row("the block after the last", io(Io.READ, lba=BLOCKS), (RANGE,), "NVM 1.0 2.1.2"),
    Row("across the end", io(Io.READ, 1024, lba=BLOCKS - 1, blocks=2), (RANGE,), "NVM 1.0 2.1.2"),
    Row("LBA 2^64-1", io(Io.READ, 1024, lba=(1 << 64) - 1, blocks=2), (RANGE,), "NVM 1.0"),
    Row("LBA 2^55", io(Io.READ, lba=1 << 55), (RANGE,), "the byte offset wraps"),
    Row("write after the last", io(Io.WRITE, lba=BLOCKS), (RANGE,), "NVM 1.0 2.1.2"),
    Row("write at 2^64-1", io(Io.WRITE, 1024, lba=(1 << 64) - 1, blocks=2), (RANGE,), "NVM 1.0"),
    Row("compare after the last", io(Io.COMPARE, lba=BLOCKS), (RANGE,), "NVM 1.0 3.2.1"),
    Row("zeroes after the last", io(Io.WRITE_ZEROES, 0, lba=BLOCKS), (RANGE,), "NVM 1.0 3.2.8"),
    Row("zeroes that wrap", io(8, 0, lba=(1 << 64) - 1, blocks=9), (RANGE,), "NVM 1.0 3.2.8"),
    Row("verify after the last", io(Io.VERIFY, 0, lba=BLOCKS), (RANGE, OPCODE), "NVM 1.0 3.2.6"),
    Row("namespace 0", io(Io.READ, nsid=0), (NAMESPACE,), "Base 3.2.1"),
    Row("namespace 2", io(Io.READ, nsid=2), (NAMESPACE, FIELD), "Base 3.2.1: inactive or none"),
    Row("namespace 70000", io(Io.READ, nsid=70000), (NAMESPACE,), "Base 3.2.1"),
    Row("every namespace", io(Io.READ, nsid=ALL), (NAMESPACE, FIELD), "Base 3.2.1"),
    Row("namespace 2^32-2", io(Io.WRITE, nsid=ALL - 1), (NAMESPACE,), "Base 3.2.1"),
    Row("flush of namespace 3", io(Io.FLUSH, 0, nsid=3), (NAMESPACE, FIELD), "Base 3.2.1"),
    *(
        Row(f"opcode {op:#04x}", io(op, 0), (OPCODE,), "Base 4.2, NVM 1.0 figure 16")
        for op in (0x03, 0x06, 0x0A, 0x0B, 0x18, 0x42, 0x7E, 0x80, 0xFF)
    ),
    Row("deallocate a range beyond", plain(9, 0, 4, nsid=1, size=16), (RANGE,), "NVM 1.0 3.2.3"),
    Row("deallocate, short list", plain(9, 1, 4, nsid=1, size=16), (LENGTH,), "NVM 1.0 3.2.3"),
    Row("deallocate, no list", plain(9, 0, 4, nsid=1), (LENGTH,), "NVM 1.0 3.2.3"),
    Row("copy to the block after the last", io(Io.COPY, 32, lba=BLOCKS), (RANGE,), "NVM 1.0 3.2.2"),
    Row("copy over itself", copy_from(38, 3), (OVERLAP,), "NVM 1.1: Overlapping I/O Range"),
    Row("copy from behind the end", copy_from(BLOCKS - 1, 2), (RANGE,), "NVM 1.0 3.2.2"),
    Row("copy from 2^64-1", copy_from((1 << 64) - 1, 2), (RANGE,), "NVM 1.0 3.2.2"),
    Row("copy of 65536 blocks", copy_from(1000, 65536), (SIZE,), "NVM 1.0 3.2.2: MSSRL, MCL"),
    Row("copy, short list", io(Io.COPY, 16), (LENGTH,), "NVM 1.0 3.2.2"),
    Row("copy, no list", io(Io.COPY, 0), (LENGTH,), "NVM 1.0 3.2.2"),
    Row("copy, 256 ranges", io(Io.COPY, 8192, blocks=256), (SIZE,), "NVM 1.0 3.2.2: MSRC"),
    Row("copy, format 1", io(Io.COPY, 32, blocks=257), (FIELD,), "NVM 1.0 3.2.2: OCFS"),
    Row("copy in namespace 2", io(Io.COPY, 32, nsid=2), (NAMESPACE, FIELD), "Base 3.2.1"),
    Row("property get on I/O", fixed(nvme.property_get(CSTS)), (FIELD, OPCODE), "Fabrics 1.1 3"),
    Row("property set on I/O", fixed(nvme.property_set(CC, 0)), (FIELD, OPCODE), "Fabrics 1.1 3"),
    Row("fctype 0x7f", fixed(nvme.fabrics(0x7F, b"")), (FIELD, OPCODE), "Fabrics 1.1 figure 15"),
]

ADMIN_ROWS = [
    *(
        Row(f"opcode {op:#04x}", plain(op), (OPCODE,), "Base figure 138; no queues by command")
        for op in (0x00, 0x01, 0x03, 0x04, 0x05, 0x07, 0x0B, 0x7E, 0xC0, 0xFF)
    ),
    Row("PSDT 00", plain(Admin.IDENTIFY, 1, size=4096, flags=0), (FIELD,), "Fabrics 1.1 2.1"),
    Row("fused", plain(Admin.IDENTIFY, 1, size=4096, flags=0x41), (FIELD,), "Base 4.2"),
    Row("identify, CNS ffh", plain(Admin.IDENTIFY, 0xFF, size=4096), (FIELD,), "Base 5.17"),
    Row("identify, CNS 7fh", plain(Admin.IDENTIFY, 0x7F, size=4096), (FIELD,), "Base 5.17"),
    Row("identify, short", plain(Admin.IDENTIFY, 1, size=4092), (LENGTH,), "Base 5.17"),
    Row("identify, nothing", plain(Admin.IDENTIFY, 1), (LENGTH,), "Base 5.17"),
    Row("identify namespace 0", plain(6, 0, nsid=0, size=4096), (NAMESPACE,), "Base 5.17.2.1"),
    Row("identify namespace 2^32-2", plain(6, 0, nsid=ALL - 1, size=4096), (NAMESPACE,), "5.17"),
    Row("list after 2^32-2", plain(6, 2, nsid=ALL - 1, size=4096), (NAMESPACE,), "5.17.2.3"),
    Row("descriptors of 0", plain(6, 3, nsid=0, size=4096), (NAMESPACE,), "Base 5.17.2.4"),
    Row("log page 55h", plain(2, 0x7F0055, size=512), (Status.INVALID_LOG_PAGE, FIELD), "5.16.1"),
    Row("log page longer", plain(2, 0x7F0002, nsid=ALL, size=256), (LENGTH,), "Base 5.16"),
    Row("log at offset 3", plain(2, 0x7F0002, 0, 3, nsid=ALL, size=512), (FIELD,), "5.16: dwords"),
    Row("log beyond its end", plain(2, 0x7F0002, 0, 1 << 20, nsid=ALL, size=512), (FIELD,), "5.16"),
    Row("feature 0", plain(Admin.GET_FEATURES, 0), (FIELD,), "Base 5.15"),
    Row("feature 7eh", plain(Admin.GET_FEATURES, 0x7E), (FIELD,), "Base 5.15"),
    Row("set feature 0", plain(Admin.SET_FEATURES, 0), (FIELD,), "Base 5.27"),
    Row("select 7", plain(Admin.GET_FEATURES, 0x707), (FIELD,), "Base 5.15, SEL"),
    Row(
        "save a feature",
        plain(Admin.SET_FEATURES, 0x80000007, 0),
        (Status.FEATURE_NOT_SAVEABLE, FIELD, Status.COMMAND_SEQUENCE_ERROR),
        "Base 5.27",
    ),
    Row("65536 queues", plain(Admin.SET_FEATURES, 7, ALL), (FIELD,), "Base 5.27.1.5"),
    Row("property at 40h", fixed(nvme.property_get(0x40)), (FIELD,), "Fabrics 1.1 3.4"),
    Row("property at 2^32-4", fixed(nvme.property_get(0xFFFFFFFC)), (FIELD,), "3.4"),
    Row("CAP in 4 bytes", fixed(nvme.property_get(CAP, 4)), (FIELD,), "Fabrics 1.1 3.4"),
    Row("CSTS in 8 bytes", fixed(nvme.property_get(CSTS, 8)), (FIELD,), "Fabrics 1.1 3.4"),
    Row("CAP written", fixed(nvme.property_set(CAP, 1, 8)), (FIELD,), "Fabrics 1.1 3.5"),
    Row("CSTS written", fixed(nvme.property_set(CSTS, 1)), (FIELD,), "Fabrics 1.1 3.5"),
    Row(
        "a property of size 2",
        fixed(nvme.fabrics(Fctype.PROPERTY_GET, struct.pack("<B3xI", 2, 0))),
        (FIELD,),
        "Fabrics 1.1 3.4",
    ),
    Row("fctype 02h", fixed(nvme.fabrics(2, b"")), (FIELD, OPCODE), "Fabrics 1.1 figure 15"),
    Row("fctype c5h", fixed(nvme.fabrics(0xC5, b"")), (FIELD, OPCODE), "Fabrics 1.1 figure 15"),
    Row("authentication", fixed(nvme.fabrics(5, b"")), (FIELD, OPCODE, LENGTH), "not asked for"),
]


@pytest.fixture(scope="module")
def host(target: Served) -> Iterator[NvmeHost]:
    """One host for the whole table: every row leaves its queues usable."""
    with NvmeHost(target.address, SUBNQN).connect() as one:
        yield one


def run(queue: Queue, row: Row) -> None:
    """Send the row's command and compare; no data is transferred, and the queue continues."""
    region = queue.memory.register(8192)
    if row.name == "deallocate a range beyond":
        region.data[:16] = struct.pack("<IIQ", 0, 8, BLOCKS - 4)
    before = bytes(region.data)
    capsule = row.build(region)
    cqe = queue.call(capsule[:64], capsule[64:])
    expected = [status.name for status in row.statuses]
    assert nvme.status_name(cqe.status) in expected, f"{row.section}: {cqe}"
    assert region.data == before
    assert cqe.dnr, "a wrong command stays wrong: Do Not Retry"
    queue.memory.unregister(region)


@pytest.mark.parametrize("row", IO_ROWS, ids=[row.name for row in IO_ROWS])
def test_io(host: NvmeHost, row: Row) -> None:
    """The status is the expected one, nothing is written or read, and the next command succeeds."""
    data = bytes([7]) * 512
    host.write(40, data)
    run(host.queues[1], row)
    assert host.read(40, 1) == data


@pytest.mark.parametrize("row", ADMIN_ROWS, ids=[row.name for row in ADMIN_ROWS])
def test_admin(host: NvmeHost, row: Row) -> None:
    """The status is the expected one, and the controller continues."""
    run(host.admin, row)
    assert expect(host.admin.call(nvme.property_get(CSTS))).dw0 == 1


@pytest.mark.feature("compare")
def test_compare_failure(host: NvmeHost) -> None:
    host.write(41, b"a" * 512)
    words = lba_words(41, 1)
    assert host.queues[1].call_write(Io.COMPARE, b"a" * 512, nsid=1, cdw=words).status == 0
    cqe = host.queues[1].call_write(Io.COMPARE, b"a" * 511 + b"b", nsid=1, cdw=words)
    assert nvme.status_name(cqe.status) == "COMPARE_FAILURE"


def test_too_many_async_events(host: NvmeHost) -> None:
    """With AERL + 2 event requests, the last one is refused, 1/05h (Base 5.2)."""
    limit = host.identify(1)[259] + 1
    admin = host.admin
    for _ in range(limit):
        admin.submit(nvme.sqe(Admin.ASYNC_EVENT, cid=0x4000 + _))
    cqe = admin.call(nvme.sqe(Admin.ASYNC_EVENT))
    assert nvme.status_name(cqe.status) == "AER_LIMIT_EXCEEDED"


def test_abort_of_nothing(host: NvmeHost) -> None:
    """An abort without effect is not an error: bit 0 of dword 0 (Base 5.1)."""
    assert expect(host.admin.call(nvme.sqe(Admin.ABORT, cdw=(0x7777 << 16,)))).dw0 & 1


def test_wrong_key_of_the_host(target: Served) -> None:
    """The host's own key is wrong: it sends a Terminate, and the target releases the connection."""
    with NvmeHost(target.address, SUBNQN).connect() as one:
        queue = one.queues[1]
        queue.peer.serve_reads = False
        queue.submit(
            nvme.sqe(Io.WRITE, nsid=1, cid=1, sgl=nvme.keyed(0x1000, 512, 0x99), cdw=(42,))
        )
        queue.peer.event()
        queue.peer.terminate(0, 1, 0)
        assert queue.peer.ending() is None


def test_more_commands_than_the_queue_holds(target: Served) -> None:
    """Commands beyond HSQSIZE find no buffer (RFC 5041 8.2) or are served; no other host waits."""
    with NvmeHost(target.address, SUBNQN).connect(depth=8) as one:
        queue = one.queues[1]
        queue.peer.serve_reads = False
        region = queue.memory.register(512)
        found, asked = None, 0
        with contextlib.suppress(ConnectionEnded, ConnectionError):
            for cid in range(1, 40):
                command = nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=keyed(region, 512), cdw=(42,))
                queue.submit(command)
            while asked < 39:
                event = queue.peer.event()
                asked += isinstance(event, ReadAsked)
                found = event if isinstance(event, Terminate) else found
        if found is not None:
            assert (found.layer, found.etype, found.code) == (1, 2, 2), str(found)
