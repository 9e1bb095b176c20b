# SPDX-License-Identifier: BSD-3-Clause
"""A recorded Linux host and our target: its recorded bytes, our replies compared with nvmet's.

Two things are adapted: the controller ID in the I/O queue's Connect, which the target chooses,
and the Read Responses, which go to the destinations that our target names.  If our reply may
differ from the kernel target's, a row of a table below states that, and why.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from support.served import Served, config
from wire import mpa, nvme
from wire.exchange import Dialogue, Exchange
from wire.host import Queue
from wire.memory import Region
from wire.nvme import Admin, Cqe, Fctype, Io, Status
from wire.peer import IwarpPeer

SUBNQN = "nqn.2026-11.lab:t"
NO_LOG = {Status.SUCCESS, Status.INVALID_LOG_PAGE, Status.INVALID_FIELD}

Key = tuple[int, int]
"""Opcode and low byte of CDW10."""
STATUS_MAY_DIFFER: dict[Key, tuple[set[Status], str]] = {
    (Io.READ, 0xFF): (
        {Status.LBA_OUT_OF_RANGE},
        "nvmet says Internal Error for a read past the end; NVM 1.0 2.1.2 names 80h",
    ),
    (Admin.IDENTIFY, 0x05): (
        {Status.SUCCESS, Status.INVALID_FIELD},
        "nvmet lacks the NVM command set's namespace structure, which Base 5.17.2.5 has",
    ),
    (Admin.GET_LOG_PAGE, 0x0C): (NO_LOG, "no ANA log where CMIC does not announce ANA"),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, need_product: None) -> Iterator[Served]:
    """A target with the recorded subsystem: 64 MiB of zeroes in blocks of 512 bytes."""
    with Served(tmp_path_factory.mktemp("replay"), config(subnqn=SUBNQN)) as one:
        yield one.wait_ready()
        assert one.end() == 0
        one.check_log()


class Replay:
    """A recorded connection, played to our target."""

    def __init__(self, address: tuple[str, int], dialogue: Dialogue, cntlid: int = 0) -> None:
        self.dialogue = dialogue
        self.cntlid = cntlid
        request = dialogue.request
        if cntlid:
            data = bytearray(request.private_data)
            data[12:14] = struct.pack("<H", cntlid)
            request = mpa.StartFrame(False, request.bits, bytes(data))
        peer = IwarpPeer(socket.create_connection(address))
        peer.send_raw(request.encode())
        self.reply = peer.receive_start()
        peer.check_reply(self.reply, request.bits)
        self.queue = Queue(peer, struct.unpack_from("<H", request.application_data, 2)[0], 0)
        self.answers: list[tuple[Exchange, Cqe, Region]] = []
        self.invalidated: list[int | None] = []
        """The STag that each answer's response invalidated."""

    def play(self, exchange: Exchange) -> Cqe | None:
        """Send the recorded capsule; return our answer if the kernel's was recorded."""
        capsule = bytearray(exchange.capsule)
        if self.cntlid and capsule[0] == nvme.FABRICS and capsule[4] == Fctype.CONNECT:
            capsule[80:82] = struct.pack("<H", self.cntlid)
        address, length, key, kind = exchange.keyed
        region = Region(key, address, bytearray(exchange.host_data.ljust(length, b"\0")))
        if kind in (0x40, 0x4F):
            self.queue.memory.regions[key] = region
            region.readable = bool(exchange.host_data)
            region.writable = not region.readable
        self.queue.submit(bytes(capsule))
        if exchange.opcode == Admin.ASYNC_EVENT and self.queue.qid == 0:
            return None
        cqe = self.queue.response(exchange.cid)
        if exchange.cqe is not None:
            self.answers.append((exchange, cqe, region))
            self.invalidated.append(self.queue.invalidated[exchange.cid])
        return cqe

    def play_all(self) -> None:
        """Play all exchanges, in order."""
        for exchange in self.dialogue.exchanges:
            self.play(exchange)

    def answer(self, opcode: int, low: int, nth: int = 0) -> tuple[Exchange, Cqe, Region]:
        """The nth answer to such a command."""
        found = [a for a in self.answers if (a[0].opcode, a[0].cdw[0] & 0xFF) == (opcode, low)]
        return found[nth]


@pytest.fixture(scope="module")
def replays(target: Served, recorded: list[Dialogue]) -> Iterator[list[Replay]]:
    """All three connections played, in the recorded order of first bytes."""
    discovery = Replay(target.address, recorded[0])
    discovery.play_all()
    discovery.queue.close()
    admin = Replay(target.address, recorded[1])
    features = next(
        index
        for index, exchange in enumerate(recorded[1].exchanges)
        if (exchange.opcode, exchange.cdw[0]) == (Admin.SET_FEATURES, 7)
    )
    for exchange in recorded[1].exchanges[: features + 1]:
        admin.play(exchange)
    cntlid = admin.answers[0][1].dw0 & 0xFFFF
    queue = Replay(target.address, recorded[2], cntlid)
    queue.play(recorded[2].exchanges[0])
    shutdown = len(recorded[1].exchanges) - 2
    for exchange in recorded[1].exchanges[features + 1 : shutdown]:
        admin.play(exchange)
    for exchange in recorded[2].exchanges[1:]:
        queue.play(exchange)
    for exchange in recorded[1].exchanges[shutdown:]:
        admin.play(exchange)
    yield [discovery, admin, queue]
    queue.queue.close()
    admin.queue.close()


def each(replays: list[Replay]) -> Iterator[tuple[Replay, Exchange, Cqe, Region]]:
    """Yield every answer."""
    for replay in replays:
        for exchange, cqe, region in replay.answers:
            yield replay, exchange, cqe, region


def test_mpa_replies(replays: list[Replay]) -> None:
    """The reply has the same bits, IRD and ORD words, and CM private data as the kernel
    target's.
    """
    for replay in replays:
        theirs = replay.dialogue.reply
        assert replay.reply.bits == theirs.bits
        assert replay.reply.application_data == theirs.application_data
        ird, ord_ = replay.reply.words
        assert not (ird | ord_) & ~mpa.DEPTH_MASK, "RTR and peer-to-peer were not asked for"
        assert ird == theirs.words[0], "a target needs no inbound RDMA READ"
        assert 1 <= ord_ <= theirs.words[1]


def test_statuses(replays: list[Replay]) -> None:
    """The kernel's statuses, unless the table states a different one."""
    wrong = []
    for _, exchange, cqe, _ in each(replays):
        assert exchange.cqe is not None
        key = (exchange.opcode, exchange.cdw[0] & 0xFF)
        allowed = {exchange.cqe.status}
        if exchange.cqe.status or key[0] == Admin.GET_LOG_PAGE:
            allowed = {int(status) for status in STATUS_MAY_DIFFER.get(key, (allowed, ""))[0]}
        if cqe.status not in allowed:
            wrong.append(f"{exchange}: {cqe}, kernel {exchange.cqe}")
        if cqe.status and not cqe.dnr:
            wrong.append(f"{exchange}: no DNR: {cqe}")
    assert not wrong, "\n".join(wrong)


def test_response_capsules(replays: list[Replay]) -> None:
    """SQID, the invalidated STag if the descriptor requests it, and SQHD as the host counts."""
    for replay in replays:
        for (exchange, cqe, _), invalidated in zip(replay.answers, replay.invalidated, strict=True):
            assert exchange.cqe is not None
            assert cqe.sqid in (0, exchange.cqe.sqid)
            key, kind = exchange.keyed[2:]
            if kind == 0x4F and not cqe.status:
                assert invalidated == key
            elif kind != 0x4F:
                assert invalidated is None
            # nvmet counts a command when it answers it; the specification when it is fetched. The
            # last read's number includes a command that the recording lacks.
            ahead = cqe.sqhd - exchange.cqe.sqhd
            ahead += exchange is replays[2].dialogue.exchanges[-1]
            assert 0 <= ahead <= 1, f"SQHD {cqe.sqhd}, kernel {exchange.cqe.sqhd}: {exchange}"


def test_lengths(replays: list[Replay]) -> None:
    """The numbers of bytes written and read equal those of the kernel target."""
    for _, exchange, cqe, region in each(replays):
        if cqe.status == 0 and not (exchange.cqe and exchange.cqe.status):
            assert region.written == len(exchange.target_data), str(exchange)
            assert region.read == len(exchange.host_data), str(exchange)


def test_blocks(replays: list[Replay]) -> None:
    """Every read returns the same blocks as the kernel target."""
    count = 0
    for _, exchange, cqe, region in each(replays[2:]):
        if exchange.opcode == Io.READ and cqe.status == 0:
            assert region.data == exchange.target_data, str(exchange)
            count += len(region.data)
    assert count > 700_000


@pytest.mark.feature("connect")
def test_connect_and_properties(replays: list[Replay]) -> None:
    """The values read at bring-up: CAP, VS and CSTS."""
    for replay in replays[:2]:
        answers = [(exchange, cqe) for exchange, cqe, _ in replay.answers]
        assert 1 <= answers[0][1].dw0 & 0xFFFF <= 0xFFEF
        assert answers[0][1].dw0 >> 16 == 0, "no authentication is asked for"
        cap = answers[1][1].dw0 | answers[1][1].dw1 << 32
        assert cap & 0xFFFF >= 127, "MQES: the host's 128 entries"
        assert cap >> 16 & 1 in (0, 1)
        assert cap >> 24 & 0xFF, "CAP.TO is not zero"
        assert cap >> 37 & 1, "the NVM command set"
        assert cap >> 48 & 0xF == 0, "MPSMIN is 4 KiB"
        states = [
            cqe.dw0
            for exchange, cqe in answers
            if exchange.opcode == nvme.FABRICS and exchange.capsule[4:5] == b"\4"
            and exchange.cdw[1] == 0x1C
        ]  # fmt: skip
        kernel = [
            exchange.cqe.dw0
            for exchange, _ in answers
            if exchange.opcode == nvme.FABRICS and exchange.capsule[4:5] == b"\4"
            and exchange.cdw[1] == 0x1C and exchange.cqe
        ]  # fmt: skip
        assert states[0] == kernel[0] == 1
        assert states[-1] & 0xC == kernel[-1] & 0xC == 8, "shutdown is complete"
        version = next(cqe.dw0 for exchange, cqe in answers if exchange.cdw[1] == 8)
        assert version >= 0x10200


Field = tuple[str, int, int, Callable[[int, int], bool]]


def same(ours: int, kernel: int) -> bool:
    """Whether our value is the kernel's."""
    return ours == kernel


def bits(ours: int, kernel: int) -> bool:
    """Whether our value has at least the bits of the kernel's."""
    return ours & kernel == kernel


CONTROLLER: list[Field] = [
    ("CNTLID", 78, 2, lambda ours, kernel: 1 <= ours <= 0xFFEF),
    ("VER", 80, 4, lambda ours, kernel: ours >= 0x10200),
    ("OAES", 92, 4, lambda ours, kernel: not ours & ~0x1FF & ~(1 << 31) or bits(kernel, ours)),
    ("CTRATT: 128-bit host ID", 96, 4, lambda ours, kernel: bool(ours & 1)),
    ("CNTRLTYPE", 111, 1, lambda ours, kernel: ours in (0, kernel)),
    ("ACL", 258, 1, lambda ours, kernel: ours >= 1),
    ("AERL", 259, 1, lambda ours, kernel: ours >= 1),
    ("KAS", 320, 2, lambda ours, kernel: ours > 0),
    ("SQES", 512, 1, same),
    ("CQES", 513, 1, same),
    ("MAXCMD", 514, 2, lambda ours, kernel: ours >= 128),
    ("NN", 516, 4, lambda ours, kernel: ours >= 1),
    ("SGLS", 536, 4, bits),
    ("IOCCSZ", 1792, 4, lambda ours, kernel: ours >= 4),
    ("IORCSZ", 1796, 4, same),
    ("ICDOFF", 1800, 2, same),
    ("FCATT", 1802, 1, lambda ours, kernel: ours in (0, kernel)),
    ("MSDBD", 1803, 1, lambda ours, kernel: ours >= 1),
]
"""The fields of Identify Controller that a Linux host reads, and permitted differences to nvmet."""

DISCOVERY_ONLY = {
    "ACL",
    "KAS",
    "SQES",
    "CQES",
    "NN",
    "IOCCSZ",
    "MAXCMD",
    "CNTRLTYPE",
    "SGLS",
    "MSDBD",
}
"""The fields that a host reads of I/O controllers only."""

NAMESPACE: list[Field] = [
    ("NSZE", 0, 8, same),
    ("NCAP", 8, 8, same),
    ("NUSE", 16, 8, lambda ours, kernel: ours <= kernel),
    ("NLBAF", 25, 1, lambda ours, kernel: ours < 64),
    ("FLBAS", 26, 1, lambda ours, kernel: ours & 0x10 == 0),
    ("DPS", 29, 1, same),
    ("LBAF0", 128, 4, lambda ours, kernel: ours & 0xFF_FFFF == kernel & 0xFF_FFFF),
]


def compare(fields: list[Field], ours: bytearray, kernel: bytearray, skip: set[str]) -> None:
    """Check every field that is not skipped."""
    wrong = []
    for name, offset, size, check in fields:
        mine, theirs = (
            int.from_bytes(data[offset : offset + size], "little") for data in (ours, kernel)
        )
        if name not in skip and not check(mine, theirs):
            wrong.append(f"{name}: {mine:#x}, kernel {theirs:#x}")
    assert not wrong, "\n".join(wrong)


def test_identify_controller(replays: list[Replay]) -> None:
    """Every field is valid that makes a Linux host refuse or warn."""
    exchange, _, region = replays[1].answer(Admin.IDENTIFY, 1)
    compare(CONTROLLER, region.data, exchange.target_data, set())
    assert region.data[768:1024].rstrip(b"\0").decode() == SUBNQN
    assert region.data[78:80] == struct.pack("<H", replays[1].answers[0][1].dw0 & 0xFFFF)
    for start, end in ((4, 24), (24, 64), (64, 72)):
        text = region.data[start:end]
        assert all(0x20 <= byte < 0x7F for byte in text), "ASCII, padded with spaces (Base 1.4.2)"


def test_identify_discovery_controller(replays: list[Replay]) -> None:
    """The discovery controller's fields are valid, too."""
    exchange, _, region = replays[0].answer(Admin.IDENTIFY, 1)
    compare(CONTROLLER, region.data, exchange.target_data, DISCOVERY_ONLY)
    nqn = region.data[768:1024].rstrip(b"\0")
    assert nqn == exchange.target_data[768:1024].rstrip(b"\0")
    assert region.data[111] == exchange.target_data[111] == 2


def test_identify_namespace(replays: list[Replay]) -> None:
    """Size, capacity and format."""
    exchange, _, region = replays[1].answer(Admin.IDENTIFY, 0)
    compare(NAMESPACE, region.data, exchange.target_data, set())


def test_namespace_list(replays: list[Replay]) -> None:
    """Active namespaces: only 1."""
    _, _, region = replays[1].answer(Admin.IDENTIFY, 2)
    assert struct.unpack_from("<2I", region.data) == (1, 0)


def test_namespace_descriptors(replays: list[Replay]) -> None:
    """UUID or NGUID or EUI-64, and a CSI where CAP bit 43 is set; the same each time."""
    _, _, first = replays[1].answer(Admin.IDENTIFY, 3)
    _, _, second = replays[1].answer(Admin.IDENTIFY, 3, 1)
    assert first.data == second.data
    kinds, offset = {}, 0
    while first.data[offset]:
        kind, length = first.data[offset : offset + 2]
        kinds[kind] = bytes(first.data[offset + 4 : offset + 4 + length])
        offset += 4 + length
    assert kinds.keys() & {1, 2, 3}
    assert all(len(kinds[k]) == n for k, n in ((1, 8), (2, 16), (3, 16), (4, 1)) if k in kinds)
    cap = replays[1].answers[1][1].dw1
    assert kinds.get(4) == b"\0" or not cap >> 11 & 1
    assert not any(first.data[offset:])


@pytest.mark.feature("discovery-log")
def test_discovery_log(replays: list[Replay]) -> None:
    """The header, then the subsystem's entry with its RDMA address."""
    header, _, first = replays[0].answer(Admin.GET_LOG_PAGE, 0x70)
    whole, _, region = replays[0].answer(Admin.GET_LOG_PAGE, 0x70, 1)
    assert region.data[:16] == first.data[:16], "genctr and numrec do not change"
    assert first.data[16:18] == header.target_data[16:18]
    count = struct.unpack_from("<Q", region.data, 8)[0]
    entries = [region.data[1024 * n : 1024 * n + 1024] for n in (1, 2)][:count]
    ours = {bytes(e[256:512]).rstrip(b"\0").decode(): e for e in entries}
    kernel = whole.target_data[2048:3072]
    entry = ours[SUBNQN]
    assert entry[0:3] == kernel[0:3], "trtype RDMA, adrfam IPv4, subtype NVM"
    assert entry[6:8] == kernel[6:8] == b"\xff\xff", "dynamic controllers"
    assert int.from_bytes(entry[8:10], "little") >= 32
    assert entry[512:768].rstrip(b" \0") == b"127.0.0.1"
    assert entry[32:64].rstrip(b" \0").isdigit()
    assert entry[768] == 1, "RC"
    assert entry[769] in (1, 5), "no provider type, or iWARP"
    assert entry[770] == 1, "RDMA-CM"


def test_features(replays: list[Replay]) -> None:
    """Number of queues: at most as many as requested, and Get returns the value of Set."""
    _, asked, _ = replays[1].answer(Admin.SET_FEATURES, 7)
    _, told, _ = replays[1].answer(Admin.GET_FEATURES, 7)
    assert asked.dw0 == told.dw0
    assert asked.dw0 & 0xFFFF >= 0
    assert asked.dw0 >> 16 == asked.dw0 & 0xFFFF
