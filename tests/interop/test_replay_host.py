# SPDX-License-Identifier: BSD-3-Clause
"""A recorded Linux target answers our client with nvmet's data, as far as it was recorded.

Property values, Identify structures, log pages, feature results and statuses are the recorded
ones, selected by command; blocks are those that the recording read.  Data comes in segments of
the size that siw used.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from support.responder import Connection, NvmeResponder
from support.served import FRIEND_NQN
from wire import nvme
from wire.exchange import Dialogue, Exchange
from wire.nvme import Admin, Fctype, Io, Status

if TYPE_CHECKING:
    from nvmf.initiator import Controller

pytestmark = pytest.mark.usefixtures("need_client")

SUBNQN = "nqn.2026-11.lab:t"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
BLOCKS = 0x20000
SIW_SEGMENT = 51180

Key = tuple[int, int, int]


def key_of(capsule: bytes) -> Key:
    """Return the key of an admin command: opcode, CDW10 and other significant fields."""
    opcode = capsule[0]
    cdw10, cdw11 = struct.unpack_from("<2I", capsule, 40)
    if opcode == Admin.IDENTIFY:
        return opcode, cdw10 & 0xFF, int.from_bytes(capsule[4:8], "little")
    if opcode in (Admin.GET_LOG_PAGE, Admin.GET_FEATURES, Admin.SET_FEATURES):
        return opcode, cdw10 & 0xFF, 0
    return opcode, cdw10, cdw11


class Nvmet:
    """The recorded kernel target on a socket."""

    def __init__(self, admin: Dialogue, io: Dialogue | None, subnqn: str) -> None:
        properties = {
            e.cdw[1]: e.cqe.dw0 | e.cqe.dw1 << 32
            for e in reversed(admin.exchanges)
            if e.opcode == nvme.FABRICS and e.capsule[4] == Fctype.PROPERTY_GET and e.cqe
        }
        self.recorded: dict[Key, Exchange] = {}
        for exchange in admin.exchanges:
            if exchange.opcode not in (nvme.FABRICS, Admin.ASYNC_EVENT):
                self.recorded.setdefault(key_of(exchange.capsule), exchange)
        self.responder = NvmeResponder(subnqn, self.identify, blocks=BLOCKS, cap=properties[0])
        self.responder.properties[8] = properties[8]
        self.responder.hook = self.answer
        self.answered: list[Key] = []
        self.missing: list[str] = []
        for exchange in reversed(io.exchanges if io else []):
            if exchange.opcode == Io.READ and exchange.cqe and not exchange.cqe.status:
                start = exchange.cdw[0] * 512
                data = exchange.target_data
                self.responder.store[start : start + len(data)] = data

    def identify(self, capsule: bytes) -> bytes:
        """Not called: the hook answers."""
        raise AssertionError(nvme.describe_sqe(capsule))

    def answer(self, connection: Connection, capsule: bytes) -> bool:
        """Return the recorded answer to an admin command, if there is one."""
        connection.peer.crc = False
        if connection.qid or capsule[0] in (nvme.FABRICS, Admin.ASYNC_EVENT, Admin.KEEP_ALIVE):
            return False
        found = self.recorded.get(key_of(capsule))
        if found is None or found.cqe is None:
            self.missing.append(nvme.describe_sqe(capsule))
            connection.complete(capsule, nvme.DNR | Status.INVALID_FIELD)
            return True
        self.answered.append(key_of(capsule))
        if found.target_data:
            length = connection.keyed(capsule)[1]
            connection.give(capsule, bytes(found.target_data[:length]))
        connection.complete(capsule, found.cqe.raw_status >> 1, found.cqe.dw0, found.cqe.dw1)
        return True


@pytest.fixture
def nvmet(recorded: list[Dialogue]) -> Iterator[Nvmet]:
    """The recorded NVM subsystem; errors of the client fail the test."""
    one = Nvmet(recorded[1], recorded[2], SUBNQN)
    with one.responder:
        yield one


@pytest.fixture
async def controller(nvmet: Nvmet) -> AsyncIterator[Controller]:
    """Our client, connected to it."""
    from nvmf.initiator import connect

    url = f"nvme+rdma://127.0.0.1:{nvmet.responder.port}/{SUBNQN}"
    async with connect(
        url, device="iwarp", queues=1, hostnqn=FRIEND_NQN, ctrl_loss_tmo=0.0, io_timeout=60.0,
        connect_timeout=60.0,
    ) as one:  # fmt: skip
        yield one


async def test_bring_up(nvmet: Nvmet, controller: Controller) -> None:
    """Connect, CAP, CC, CSTS, Identify, queues and namespaces from the kernel's own answers."""
    assert (Admin.IDENTIFY, 1, 0) in nvmet.answered
    assert (Admin.SET_FEATURES, 7, 0) in nvmet.answered
    assert controller.queues == 1
    assert [(n.nsid, n.blocks, n.block_size) for n in controller.namespaces] == [(1, BLOCKS, 512)]
    assert controller.identify.cntlid == 1
    assert controller.max_transfer == 1 << 20
    assert nvmet.responder.properties[0x14] & 1


async def test_requests_like_the_kernel_hosts(
    nvmet: Nvmet, controller: Controller, recorded: list[Dialogue]
) -> None:
    """MPA request, CM private data and Connect as the kernel host sent them, field by field."""
    theirs = [recorded[1].request, recorded[2].request]
    for connection, kernel in zip(nvmet.responder.connections, theirs, strict=True):
        ours = connection.peer.start
        assert ours is not None
        assert ours.bits == kernel.bits
        ird, ord_ = ours.words
        assert 1 <= ird <= 0x3FFF
        assert ord_ <= 0x3FFF
        data, expected = ours.application_data, kernel.application_data
        assert data[:8] == expected[:8], "record format, QID, HRQSIZE, HSQSIZE"
        assert data[8:10] in (expected[8:10], b"\0\0")
    for number, connection in enumerate(nvmet.responder.connections):
        capsule, kernel_sqe = connection.capsules[0], recorded[number + 1].exchanges[0].sqe
        assert capsule[:2] == kernel_sqe[:2]
        assert capsule[4:5] == kernel_sqe[4:5]
        assert capsule[40:47] == kernel_sqe[40:47], "record format, QID, SQSIZE, CATTR"
        assert not any(capsule[5:24]), "reserved"


async def test_blocks(controller: Controller, recorded: list[Dialogue]) -> None:
    """Every range that the kernel host read, byte for byte."""
    disk = controller.namespace(1)
    last: dict[int, bytes] = {}
    for exchange in recorded[2].exchanges:
        if exchange.opcode == Io.READ and exchange.cqe and not exchange.cqe.status:
            last.setdefault(exchange.cdw[0], bytes(exchange.target_data))
    assert len(last) > 40
    for lba, data in list(last.items())[:3]:
        assert len(await disk.read(lba, len(data) // 512)) == len(data)
    for lba in (0x1FFF8, 0x1FF80, 0x1FE70):
        assert await disk.read(lba, len(last[lba]) // 512) == last[lba]


async def test_writes(nvmet: Nvmet, controller: Controller, recorded: list[Dialogue]) -> None:
    """The kernel host's writes, by our client: in the capsule if they fit, otherwise by READ."""
    disk = controller.namespace(1)
    for exchange in recorded[2].exchanges:
        if exchange.opcode == Io.WRITE:
            data = exchange.host_data or exchange.capsule[64:]
            await disk.write(exchange.cdw[0], data)
            start = exchange.cdw[0] * 512
            assert nvmet.responder.store[start : start + len(data)] == data
    await disk.flush()
    await disk.write_zeroes(8, 8)
    await disk.deallocate([(128, 128)])
    io = nvmet.responder.connections[1].capsules
    small = next(c for c in io if c[0] == Io.WRITE and len(c) == 64 + 512)
    kernel = next(e for e in recorded[2].exchanges if len(e.capsule) == 64 + 512)
    assert small[24:64] == kernel.capsule[24:64], "SGL and CDW10 to CDW15 of the 512-byte write"
    flush = next(c for c in io if c[0] == Io.FLUSH)
    kernel = next(e for e in recorded[2].exchanges if e.opcode == Io.FLUSH)
    assert flush[4:24] == kernel.capsule[4:24]
    zeroes = next(c for c in io if c[0] == Io.WRITE_ZEROES)
    kernel = next(e for e in recorded[2].exchanges if e.opcode == Io.WRITE_ZEROES)
    assert zeroes[4:24] == kernel.capsule[4:24]
    assert zeroes[39] in (0x40, 0x4F)
    assert zeroes[40:50] == kernel.capsule[40:50]


async def test_past_the_end(nvmet: Nvmet, controller: Controller, recorded: list[Dialogue]) -> None:
    """The kernel's status for its own refusal is reported to the caller by name."""
    from nvmf.initiator import NvmeError

    refusal = recorded[2].exchanges[-1].cqe
    assert refusal is not None

    def refuse(connection: Connection, capsule: bytes) -> bool:
        if connection.qid and capsule[0] == Io.READ:
            connection.complete(capsule, refusal.raw_status >> 1)
            return True
        return nvmet.answer(connection, capsule)

    nvmet.responder.hook = refuse
    with pytest.raises(NvmeError, match=r"(?i)internal error") as error:
        await controller.namespace(1).read(0, 1)
    assert error.value.status & 0x7FF == Status.INTERNAL_ERROR


async def test_shutdown(recorded: list[Dialogue]) -> None:
    """CC.SHN as the kernel host sets it."""
    from nvmf.initiator import connect

    one = Nvmet(recorded[1], recorded[2], SUBNQN)
    with one.responder:
        url = f"nvme+rdma://127.0.0.1:{one.responder.port}/{SUBNQN}"
        async with connect(url, device="iwarp", queues=1, connect_timeout=60.0):
            pass
        assert one.responder.properties[0x14] == 0x464061
        assert one.responder.properties[0x1C] & 0xC == 8


async def test_discovery(recorded: list[Dialogue]) -> None:
    """The kernel's discovery log, read by our discover()."""
    from nvmf.initiator import discover

    one = Nvmet(recorded[0], None, DISCOVERY)
    log = max(
        (e for e in recorded[0].exchanges if e.opcode == Admin.GET_LOG_PAGE),
        key=lambda e: len(e.target_data),
    )
    one.recorded[key_of(log.capsule)] = log
    original = one.answer

    def answer(connection: Connection, capsule: bytes) -> bool:
        if capsule[0] != Admin.GET_LOG_PAGE or connection.qid:
            return original(connection, capsule)
        length = connection.keyed(capsule)[1]
        offset = int.from_bytes(capsule[48:56], "little")
        data = bytes(log.target_data[offset : offset + length])
        connection.give(capsule, data.ljust(length, b"\0"))
        connection.complete(capsule)
        return True

    one.responder.hook = answer
    with one.responder:
        entries = await discover(f"nvme+rdma://127.0.0.1:{one.responder.port}", device="iwarp")
    assert sorted(entry.subnqn for entry in entries) == [DISCOVERY, SUBNQN]
    assert {(entry.traddr, entry.trsvcid) for entry in entries} == {("10.77.0.2", "4420")}
