# SPDX-License-Identifier: BSD-3-Clause
"""Connect, and the commands before and around it, with various errors."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from support.served import FRIEND_NQN, PRIVATE_NQN, SUBNQN, Served
from wire import nvme
from wire.errors import ConnectionEnded
from wire.host import CC, CC_ENABLE_CSI, CSTS, NvmeHost, Queue, Terminated, expect
from wire.nvme import Admin, Cqe, Fctype, Io, Status
from wire.rdmap import Op

pytestmark = pytest.mark.usefixtures("unharmed")

IN_DATA = 1 << 16
"""IATTR: the parameter is in the Connect data, not in the command (Fabrics 1.1, 3.3)."""
SQSIZE, QID, CNTLID, NQN, HOSTNQN = 44, 42, IN_DATA | 16, IN_DATA | 256, IN_DATA | 512
INVALID, HOST, BUSY = Status.CONNECT_INVALID_PARAMETERS, Status.CONNECT_INVALID_HOST, 0x181
SEQUENCE = Status.COMMAND_SEQUENCE_ERROR


@pytest.fixture
def admin(target: Served) -> Iterator[Queue]:
    """An admin queue without a controller."""
    queue = Queue.open(target.address)
    yield queue
    queue.close()


def connect(
    queue: Queue,
    *,
    qid: int | None = None,
    sqsize: int | None = None,
    data: bytes | None = None,
    subnqn: str = SUBNQN,
    hostnqn: str = FRIEND_NQN,
    cntlid: int = 0xFFFF,
    recfmt: int = 0,
    cattr: int = 0,
    hostid: bytes = b"h" * 16,
) -> Cqe:
    """Send a Connect with one wrong parameter."""
    if data is None:
        data = nvme.connect_data(hostid, cntlid, subnqn, hostnqn)
    region = queue.memory.register(data, writable=False)
    return queue.call(
        nvme.connect(
            queue.qid if qid is None else qid,
            queue.depth - 1 if sqsize is None else sqsize,
            recfmt=recfmt,
            cattr=cattr,
            sgl=nvme.keyed(region.base, len(data), region.stag),
        )
    )


def check(cqe: Cqe, status: int, parameter: int | None = None) -> None:
    """Check for a refusal, with Do Not Retry, that refers to the parameter."""
    assert nvme.status_name(cqe.status) == nvme.status_name(status)
    if parameter is not None:
        assert cqe.dw0 == parameter, f"IATTR and IPO: {cqe.dw0:#x}, not {parameter:#x}"
    assert cqe.dnr, "the host would try the same again"


BEFORE = {
    "identify": nvme.sqe(Admin.IDENTIFY, cdw=(1,)),
    "keep alive": nvme.sqe(Admin.KEEP_ALIVE),
    "async event": nvme.sqe(Admin.ASYNC_EVENT),
    "get features": nvme.sqe(Admin.GET_FEATURES, cdw=(7,)),
    "property get": nvme.property_get(0, 8),
    "property set": nvme.property_set(CC, CC_ENABLE_CSI),
    "fabrics disconnect": nvme.fabrics(Fctype.DISCONNECT, b""),
    "reserved opcode": nvme.sqe(0x7E),
}


@pytest.mark.parametrize("name", BEFORE)
def test_before_connect(admin: Queue, name: str) -> None:
    """Any command except Connect is a sequence error (Fabrics 1.1, 3.3)."""
    cqe = admin.call(BEFORE[name])
    assert nvme.status_name(cqe.status) == "COMMAND_SEQUENCE_ERROR"
    expect(connect(admin))


@pytest.mark.parametrize("opcode", [Io.FLUSH, Io.READ, Io.WRITE, 0x7E])
def test_before_connect_of_io(target: Served, host: NvmeHost, opcode: int) -> None:
    """Any command before Connect is a sequence error on an I/O queue, too."""
    queue = Queue.open(target.address, 2, 32, host.cntlid)
    size = 512 if opcode in (Io.READ, Io.WRITE) else 0
    region = queue.memory.register(size)
    sgl = nvme.keyed(region.base, size, region.stag)
    cqe = queue.call(nvme.sqe(opcode, nsid=1, sgl=sgl))
    assert nvme.status_name(cqe.status) == "COMMAND_SEQUENCE_ERROR"
    assert (region.read, region.written) == (0, 0)
    queue.close()


def test_unknown_nqn(admin: Queue) -> None:
    check(connect(admin, subnqn="nqn.2014-08.org.example:nobody"), INVALID, NQN)


def test_empty_nqn(admin: Queue) -> None:
    check(connect(admin, subnqn=""), INVALID, NQN)


def test_nqn_without_end(admin: Queue) -> None:
    check(connect(admin, subnqn="n" * 256), INVALID, NQN)


def test_nqn_of_other_bytes(admin: Queue) -> None:
    """NQNs that are not UTF-8, or have quotes, control characters or a format, cause at most one
    log line.
    """
    data = bytearray(nvme.connect_data(b"h" * 16, 0xFFFF, "", FRIEND_NQN))
    data[256:280] = b"\xff\xfe%s%n\x1b[31m\n'\"{0}\\x00nqn"[:24].ljust(24, b"z")
    check(connect(admin, data=bytes(data)), INVALID, NQN)


def test_empty_hostnqn(admin: Queue) -> None:
    """If the subsystem has a list of hosts, an empty name is not in it."""
    check(connect(admin, subnqn=PRIVATE_NQN, hostnqn=""), INVALID, HOSTNQN)


def test_hostnqn_without_end(admin: Queue) -> None:
    assert connect(admin, hostnqn="h" * 256).status in (INVALID, HOST)


@pytest.mark.feature("allow-list")
def test_host_not_allowed(admin: Queue) -> None:
    cqe = connect(admin, subnqn=PRIVATE_NQN, hostnqn=FRIEND_NQN + "e")
    check(cqe, HOST, HOSTNQN)


@pytest.mark.feature("allow-list")
def test_host_allowed(admin: Queue) -> None:
    expect(connect(admin, subnqn=PRIVATE_NQN, hostnqn=FRIEND_NQN))


@pytest.mark.parametrize("cntlid", [0, 1, 0xFFFE])
def test_static_cntlid(admin: Queue, cntlid: int) -> None:
    """A subsystem of the dynamic model accepts only FFFFh on the admin queue."""
    check(connect(admin, cntlid=cntlid), INVALID, CNTLID)


def test_record_format(admin: Queue) -> None:
    check(connect(admin, recfmt=1), Status.INCOMPATIBLE_FORMAT)


def test_sqsize_zero(admin: Queue) -> None:
    check(connect(admin, sqsize=0), INVALID, SQSIZE)


def test_sqsize_beyond_the_queue(admin: Queue) -> None:
    """A queue larger than HSQSIZE cannot be received."""
    check(connect(admin, sqsize=1000), INVALID, SQSIZE)


def test_qid_of_another_queue(admin: Queue) -> None:
    """Connect names a different queue than the CM request."""
    check(connect(admin, qid=1), INVALID)


@pytest.mark.parametrize("size", [0, 16, 1023, 1025, 4096])
def test_length_of_data(admin: Queue, size: int) -> None:
    """The Connect data has exactly 1024 bytes."""
    data = nvme.connect_data(b"h" * 16, 0xFFFF, SUBNQN, FRIEND_NQN).ljust(size, b"\0")[:size]
    check(connect(admin, data=data), Status.SGL_DATA_LENGTH_INVALID)


def test_again(host: NvmeHost) -> None:
    """A second Connect on a connected queue is refused."""
    cqe = connect(host.admin, hostnqn=host.hostnqn, hostid=host.hostid)
    assert cqe.status == SEQUENCE
    assert len(host.identify(1)) == 4096


def _second(target: Served, host: NvmeHost, qid: int, depth: int = 32, cntlid: int | None = None,
            **wrong: object) -> Cqe:  # fmt: skip
    queue = Queue.open(target.address, qid, depth, host.cntlid)
    try:
        args = {"hostnqn": host.hostnqn, "hostid": host.hostid, **wrong}
        cntlid = host.cntlid if cntlid is None else cntlid
        return connect(queue, cntlid=cntlid, **args)  # type: ignore[arg-type]
    finally:
        queue.close()


def test_io_cntlid(target: Served, host: NvmeHost) -> None:
    """Connect to a controller that does not exist is refused."""
    check(_second(target, host, 2, cntlid=0xFFEE), INVALID, CNTLID)
    check(_second(target, host, 2, cntlid=0xFFFF), INVALID, CNTLID)


def test_io_of_another_host(target: Served, host: NvmeHost) -> None:
    """A queue cannot join the controller of another host."""
    cqe = _second(target, host, 2, hostnqn=FRIEND_NQN)
    assert cqe.status in (INVALID, HOST)


def test_io_of_another_host_id(target: Served, host: NvmeHost) -> None:
    cqe = _second(target, host, 2, hostid=b"another host id.")
    assert cqe.status in (INVALID, HOST)


def test_io_of_another_subsystem(target: Served, host: NvmeHost) -> None:
    assert _second(target, host, 2, subnqn=PRIVATE_NQN).status in (INVALID, HOST)


def test_io_qid_in_use(target: Served, host: NvmeHost) -> None:
    """The existing queue continues."""
    assert _second(target, host, 1).status in (SEQUENCE, INVALID, BUSY)
    host.write(30, b"1" * 512)
    assert host.read(30, 1) == b"1" * 512


def test_io_sqsize_zero(target: Served, host: NvmeHost) -> None:
    check(_second(target, host, 2, sqsize=0), INVALID, SQSIZE)


def test_io_sqsize_beyond_mqes(target: Served, host: NvmeHost) -> None:
    check(_second(target, host, 2, sqsize=0xFFFF), INVALID, SQSIZE)


def test_io_before_enable(target: Served) -> None:
    """CC.EN is clear: an I/O queue is refused, or executes no commands."""
    host = NvmeHost(target.address, SUBNQN)
    with host:
        admin = Queue.open(target.address)
        host.queues.append(admin)
        host.cntlid = expect(host.connect_command(admin)).dw0 & 0xFFFF
        queue = Queue.open(target.address, 1, 32, host.cntlid)
        host.queues.append(queue)
        cqe = host.connect_command(queue)
        if cqe.status == 0:
            cqe = queue.call(nvme.sqe(Io.FLUSH, nsid=1))
        assert cqe.status in (SEQUENCE, INVALID)


def test_io_after_disable(host: NvmeHost) -> None:
    """CC.EN cleared: I/O is refused or the I/O queues end."""
    expect(host.admin.call(nvme.property_set(CC, CC_ENABLE_CSI & ~1)))
    try:
        cqe = host.queues[1].call(nvme.sqe(Io.FLUSH, nsid=1))
        assert cqe.status == SEQUENCE
    except (ConnectionEnded, Terminated):
        pass
    assert not expect(host.admin.call(nvme.property_get(CSTS))).dw0 & 1


def test_io_in_capsule_connect(target: Served, host: NvmeHost) -> None:
    """Linux sends the Connect data of an I/O queue within the capsule."""
    queue = Queue.open(target.address, 2, 32, host.cntlid)
    data = host.data(host.cntlid)
    cqe = queue.call(nvme.connect(2, 31, sgl=nvme.in_capsule(0, 1024)), data)
    assert expect(cqe).dw0 & 0xFFFF == host.cntlid
    queue.close()


def test_admin_in_capsule_connect(admin: Queue) -> None:
    """An admin queue accepts no in-capsule data: refused, or the message is too long."""
    data = nvme.connect_data(b"h" * 16, 0xFFFF, SUBNQN, FRIEND_NQN)
    try:
        cqe = admin.call(nvme.connect(0, 31, sgl=nvme.in_capsule(0, 1024)), data)
    except (ConnectionEnded, Terminated):
        return
    assert cqe.status in (Status.SUCCESS, Status.SGL_OFFSET_INVALID, Status.INVALID_FIELD)


def test_short_capsules(target: Served) -> None:
    """Fewer than 64 bytes are not a capsule: the connection ends."""
    for size in (0, 1, 16, 63):
        queue = Queue.open(target.address)
        queue.peer.send(bytes(size))
        queue.peer.ending()
        queue.close()


def test_solicited(target: Served) -> None:
    """Send with Solicited Event carries a capsule as well as Send does."""
    queue = Queue.open(target.address)
    queue.peer.send(nvme.property_get(0, 8, cid=3), op=Op.SEND_SE)
    assert queue.response(3).status == SEQUENCE
    queue.close()


def test_no_flow_control(target: Served) -> None:
    """CATTR bit 2: SQHD is FFFFh in the response to Connect (Fabrics 1.1, 3.3)."""
    queue = Queue.open(target.address)
    cqe = connect(queue, cattr=4)
    assert cqe.status in (Status.SUCCESS, Status.INVALID_FIELD)
    if cqe.status == 0:
        assert cqe.sqhd == 0xFFFF
        for _ in range(40):
            expect(queue.call(nvme.property_get(0, 8)))
    queue.close()


def test_keep_alive_timeout(target: Served) -> None:
    """A host that stops sending is disconnected after its KATO."""
    host = NvmeHost(target.address, SUBNQN, kato=1000).connect()
    assert host.admin.peer.ending() is None
    assert host.queues[1].peer.ending() is None
    host.close()


@pytest.mark.feature("disconnect")
def test_disconnect_command(host: NvmeHost) -> None:
    """The fabrics Disconnect of an I/O queue succeeds, then that queue ends."""
    queue = host.queues[1]
    cqe = queue.call(nvme.fabrics(Fctype.DISCONNECT, struct.pack("<H", 0)))
    assert cqe.status == 0
    queue.peer.ending()
    assert len(host.identify(1)) == 4096
