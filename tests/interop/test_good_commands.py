# SPDX-License-Identifier: BSD-3-Clause
"""Valid commands of hosts that the recorded host did not use: lists, sizes, depth, order, IPv6."""

from __future__ import annotations

import random
import socket
import struct
import time

import pytest

from support.served import SUBNQN, Served, config
from wire import nvme
from wire.host import NvmeHost, Queue, expect, lba_words
from wire.memory import Region
from wire.nvme import Admin, Io, Status
from wire.peer import Received

pytestmark = pytest.mark.usefixtures("unharmed")

LIMIT = 1 << 20
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


def noise(size: int, seed: int) -> bytes:
    """Return bytes without repetitions."""
    return random.Random(seed).randbytes(size)


@pytest.mark.feature("keyed-sgl", "invalidate")
@pytest.mark.parametrize("crc", [False, True], ids=["plain", "crc"])
@pytest.mark.parametrize("kind", [0x40, 0x4F])
def test_sizes(target: Served, crc: bool, kind: int) -> None:
    """All ways to transfer data, around the sizes at which the method changes."""
    sizes = [512, 4096, 4608, 65024, 65536, 130560, 131072, 131584, 262144, 524800, LIMIT]
    with NvmeHost(target.address, SUBNQN, crc=crc).connect() as host:
        queue = host.queues[1]
        for number, size in enumerate(sizes if not crc else sizes[:6]):
            data = noise(size, number)
            words = lba_words(8192, size // 512)
            expect(queue.call_write(Io.WRITE, data, nsid=1, cdw=words, kind=kind))
            cqe, found = queue.call_read(Io.READ, size, nsid=1, cdw=words, kind=kind)
            expect(cqe)
            assert found == data, size
            expect(queue.call_write(Io.COMPARE, data, nsid=1, cdw=words))


@pytest.mark.feature("in-capsule")
@pytest.mark.parametrize("size", [512, 2048, 4096])
def test_in_capsule(host: NvmeHost, size: int) -> None:
    """Up to IOCCSZ, at offset 0, and at a different one if it fits."""
    assert struct.unpack_from("<I", host.identify(1), 1792)[0] * 16 - 64 == 4096
    queue, data = host.queues[1], noise(size, size)
    words = lba_words(64, size // 512)
    sgl = nvme.in_capsule(0, size)
    expect(queue.call(nvme.sqe(Io.WRITE, nsid=1, sgl=sgl, cdw=words), data))
    assert host.read(64, size // 512) == data
    if size < 4096:
        sgl = nvme.in_capsule(512, size)
        other = noise(size, size + 1)
        expect(queue.call(nvme.sqe(Io.WRITE, nsid=1, sgl=sgl, cdw=words), bytes(512) + other))
        assert host.read(64, size // 512) == other


def pieces(host: NvmeHost, sizes: list[int], data: bytes = b"") -> tuple[list[Region], bytes]:
    """Return regions of these sizes, and their descriptors."""
    regions, offset = [], 0
    for size in sizes:
        content = data[offset : offset + size] or size
        regions.append(host.queues[1].memory.register(content))
        offset += size
    return regions, b"".join(
        nvme.keyed(region.base, len(region.data), region.stag) for region in regions
    )


LISTS = [[512], [256, 256], [512, 1024, 512], [100, 412], [4, 8188], [65536, 512, 66048], [512] * 8]


@pytest.mark.feature("sgl-lists")
@pytest.mark.parametrize("sizes", LISTS, ids=str)
def test_lists(host: NvmeHost, sizes: list[int]) -> None:
    """A last segment descriptor in the capsule with keyed descriptors: as many as MSDBD permits."""
    limit = host.identify(1)[1803]
    total = sum(sizes)
    data, words = noise(total, total), lba_words(3000, total // 512)
    _, descriptors = pieces(host, sizes, data)
    sgl = nvme.in_capsule(0, len(descriptors), kind=0x31)
    cqe = host.queues[1].call(nvme.sqe(Io.WRITE, nsid=1, sgl=sgl, cdw=words), descriptors)
    if limit and len(sizes) > limit:
        assert cqe.status in (Status.INVALID_SGL_COUNT, Status.SGL_TYPE_INVALID)
        return
    expect(cqe)
    assert host.read(3000, total // 512) == data
    regions, descriptors = pieces(host, sizes)
    cqe = host.queues[1].call(nvme.sqe(Io.READ, nsid=1, sgl=sgl, cdw=words), descriptors)
    expect(cqe)
    assert b"".join(region.data for region in regions) == data


@pytest.mark.feature("sgl-lists")
@pytest.mark.parametrize("wrong", [-4, 4, -512, 512])
def test_list_of_another_length(host: NvmeHost, wrong: int) -> None:
    """The total length of the descriptors must be that of the command (SGLS bit 18 is 0)."""
    regions, descriptors = pieces(host, [512, 1024 + wrong])
    sgl = nvme.in_capsule(0, 32, kind=0x31)
    capsule = nvme.sqe(Io.READ, nsid=1, sgl=sgl, cdw=lba_words(10, 3))
    cqe = host.queues[1].call(capsule, descriptors)
    assert nvme.status_name(cqe.status) == "SGL_DATA_LENGTH_INVALID"
    assert not any(region.written for region in regions)


@pytest.mark.feature("keyed-sgl", "invalidate")
def test_depth(host: NvmeHost) -> None:
    """The whole queue at once, in several orders, each command answered once with its own data."""
    queue = host.queues[1]
    for lap in range(4):
        regions: dict[int, tuple[Region, bytes]] = {}
        for index in range(31):
            cid = lap * 100 + index + 1
            data = noise(8192, cid)
            region = queue.memory.register(data, writable=False)
            sgl = nvme.keyed(region.base, 8192, region.stag)
            words = lba_words(index * 16, 16)
            queue.submit(nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=sgl, cdw=words))
            regions[cid] = region, data
        for cid in sorted(regions, reverse=lap % 2 == 0):
            expect(queue.response(cid))
        for cid, (_, data) in regions.items():
            region = queue.memory.register(8192, readable=False)
            sgl = nvme.keyed(region.base, 8192, region.stag, kind=0x4F)
            words = lba_words((cid - lap * 100 - 1) * 16, 16)
            queue.submit(nvme.sqe(Io.READ, nsid=1, cid=cid, sgl=sgl, cdw=words))
            regions[cid] = region, data
        for cid, (region, data) in regions.items():
            expect(queue.response(cid))
            assert region.data == data
            assert queue.invalidated[cid] in (None, region.stag)


def test_submission_queue_head(target: Served) -> None:
    """SQHD wraps at SQSIZE + 1 (Fabrics 1.1 2.4)."""
    with NvmeHost(target.address, SUBNQN).connect(depth=5) as host:
        heads = [host.queues[1].call(nvme.sqe(Io.FLUSH, nsid=1)).sqhd for _ in range(12)]
        assert heads == [(2 + n) % 5 for n in range(12)]


def test_flush_of_every_namespace(host: NvmeHost) -> None:
    """NSID FFFFFFFFh in Flush (Base 2.0, VWC bits 2:1) is executed or refused, as VWC says."""
    behaviour = host.identify(1)[525] >> 1 & 3
    cqe = host.queues[1].call(nvme.sqe(Io.FLUSH, nsid=0xFFFFFFFF))
    assert (cqe.status == 0) == (behaviour == 3) or behaviour == 0, (behaviour, cqe)


@pytest.mark.feature("write-zeroes", "deallocate")
def test_write_zeroes_and_deallocate(host: NvmeHost) -> None:
    """Zeroed blocks read as zeroes; their neighbours are unchanged."""
    host.write(500, b"\xff" * 512 * 24)
    queue = host.queues[1]
    expect(queue.call(nvme.sqe(Io.WRITE_ZEROES, nsid=1, cdw=lba_words(508, 8))))
    found = host.read(500, 24)
    assert found == b"\xff" * 4096 + bytes(4096) + b"\xff" * 4096
    ranges = struct.pack("<IIQIIQ", 0, 2, 500, 0, 1, 523)
    expect(queue.call_write(Io.DSM, ranges, nsid=1, cdw=(1, 4)))
    found = host.read(500, 24)
    assert found[1024:4096] == b"\xff" * 3072
    assert found[8192:-512] == b"\xff" * 3584


@pytest.mark.feature("verify")
def test_verify(host: NvmeHost) -> None:
    """Verify, if ONCS bit 7 is set."""
    oncs = struct.unpack_from("<H", host.identify(1), 520)[0]
    cqe = host.queues[1].call(nvme.sqe(Io.VERIFY, nsid=1, cdw=lba_words(0, 2048)))
    assert cqe.status == (0 if oncs & 0x80 else Status.INVALID_OPCODE)


@pytest.mark.feature("copy")
def test_copy(host: NvmeHost) -> None:
    """Copy in descriptor format 0h: SLBA in bytes 15:8, NLB in 17:16; as Identify allows it."""
    controller, namespace = host.identify(1), host.identify(0, nsid=1)
    assert struct.unpack_from("<H", controller, 520)[0] & 0x100, "ONCS"
    assert struct.unpack_from("<H", controller, 534)[0] & 1, "OCFS"
    mssrl, mcl = (
        struct.unpack_from("<HI", namespace, 74)[0],
        struct.unpack_from("<I", namespace, 76)[0],
    )
    assert 1 <= mssrl <= mcl
    assert namespace[80] >= 1, "MSRC"
    data = noise(512 * 64, 19)
    host.write(1000, data)
    host.write(3000, bytes(512 * 16))
    ranges = b"".join(struct.pack("<8xQH14x", lba, n - 1) for lba, n in ((1001, 1), (1030, 9)))
    expect(host.queues[1].call_write(Io.COPY, ranges, nsid=1, cdw=(3001, 0, 1)))
    found = host.read(3000, 16)
    assert found[512:1024] == data[512:1024]
    assert found[1024 : 512 * 11] == data[30 * 512 : 39 * 512]
    assert found[:512] == bytes(512)
    assert found[512 * 11 :] == bytes(512 * 5)
    longest = struct.pack("<8xQH14x", 1000, min(mssrl, 0xFFFF) - 1)
    expect(host.queues[1].call_write(Io.COPY, longest, nsid=1, cdw=(8000, 0, 0x40000000)))
    assert host.read(8000, 64) == data


def test_fua(host: NvmeHost) -> None:
    """FUA reads and writes (CDW12 bit 30)."""
    words, queue = lba_words(70, 1, 0x4000), host.queues[1]
    expect(queue.call_write(Io.WRITE, b"f" * 512, nsid=1, cdw=words))
    cqe, found = queue.call_read(Io.READ, 512, nsid=1, cdw=words)
    assert (cqe.status, found) == (0, b"f" * 512)


@pytest.mark.feature("keep-alive", "tbkas")
def test_keep_alive(target: Served) -> None:
    """Keep Alive keeps the controller, and so does other traffic, if TBKAS is set (Base 3.9)."""
    with (
        NvmeHost(target.address, SUBNQN, kato=8000).connect() as one,
        NvmeHost(target.address, SUBNQN, kato=8000).connect() as other,
    ):
        assert other.identify(1)[96] & 0x40, "CTRATT has no TBKAS"
        for _ in range(5):
            time.sleep(2)
            expect(one.admin.call(nvme.sqe(Admin.KEEP_ALIVE)))
            other.read(0, 1)


@pytest.mark.feature("abort")
def test_abort_of_an_async_event(host: NvmeHost) -> None:
    """Abort ends an outstanding command, or reports that it did not."""
    host.admin.submit(nvme.sqe(Admin.ASYNC_EVENT, cid=0x5000))
    aborted = not expect(host.admin.call(nvme.sqe(Admin.ABORT, cdw=(0x5000 << 16,)))).dw0 & 1
    if aborted:
        assert nvme.status_name(host.admin.response(0x5000).status) == "ABORTED_BY_REQUEST"


@pytest.mark.feature("discovery-log")
def test_discovery(target: Served) -> None:
    """A host that reads the log in pieces gets the same data as in one piece."""
    with NvmeHost(target.address, DISCOVERY).connect(io_queues=0) as host:
        assert host.identify(1)[111] == 2
        whole = page(host.admin, 0, 4096)
        count = struct.unpack_from("<Q", whole, 8)[0]
        assert count >= 1
        names = [whole[n * 1024 + 256 :][:256].rstrip(b"\0").decode() for n in range(1, count + 1)]
        assert SUBNQN in names
        size = 1024 * (count + 1)
        parts = b"".join(page(host.admin, at, 512) for at in range(0, size, 512))
        assert parts == whole[:size]
        for number in range(1, count + 1):
            entry = whole[number * 1024 : number * 1024 + 1024]
            assert int(entry[32:64].rstrip(b" \0")) == target.port


def page(admin: Queue, offset: int, size: int) -> bytes:
    """A piece of the discovery log."""
    cdw = (0x70 | (size // 4 - 1) << 16, 0, offset)
    cqe, data = admin.call_read(Admin.GET_LOG_PAGE, size, cdw=cdw)
    expect(cqe)
    return data


def test_discovery_has_no_io(target: Served) -> None:
    """A discovery controller accepts no I/O queue and shows no namespace."""
    with NvmeHost(target.address, DISCOVERY).connect(io_queues=0) as host:
        queue = Queue.open(target.address, 1, 32, host.cntlid)
        host.queues.append(queue)
        assert host.connect_command(queue).status == Status.CONNECT_INVALID_PARAMETERS
        cqe, _ = host.admin.call_read(Admin.IDENTIFY, 4096, nsid=1)
        assert cqe.status


@pytest.mark.feature("allow-list", "discovery-log")
def test_hidden_from_strangers(target: Served) -> None:
    """The log has no subsystem to which the host may not connect."""
    from support.served import FRIEND_NQN, PRIVATE_NQN

    for hostnqn, seen in ((FRIEND_NQN, True), (None, False)):
        with NvmeHost(target.address, DISCOVERY, hostnqn=hostnqn).connect(io_queues=0) as host:
            assert (PRIVATE_NQN.encode() in page(host.admin, 0, 4096)) == seen


@pytest.mark.feature("ipv6")
def test_ipv6(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same over IPv6, with its address in the discovery log."""
    text = config(traddr="::1")
    with Served(tmp_path_factory.mktemp("ipv6"), text) as one:
        try:
            one.wait_ready()
        except AssertionError:
            if "ddress" in one.log:
                pytest.skip("no IPv6 loopback here")
            raise
        with NvmeHost(("::1", one.port), SUBNQN).connect() as host:
            host.write(1, b"6" * 512)
            assert host.read(1, 1) == b"6" * 512
        with NvmeHost(("::1", one.port), DISCOVERY).connect(io_queues=0) as host:
            entry = page(host.admin, 1024, 1024)
            assert entry[1] == 2, "adrfam IPv6"
            assert entry[512:768].rstrip(b" \0") == b"::1"
        assert one.end() == 0


@pytest.mark.parametrize("size", [4096, 32768], ids=["small", "large"])
def test_data_before_responses(host: NvmeHost, size: int) -> None:
    """Reads that come together: the data of each is followed by its response."""
    queue, cids, regions = host.queues[1], [], []
    data = noise(4 * size, size)
    expect(queue.call_write(Io.WRITE, data, nsid=1, cdw=lba_words(4096, len(data) // 512)))
    queue.peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    for number in range(4):
        region = queue.memory.register(size, readable=False)
        sgl = nvme.keyed(region.base, size, region.stag)
        words = lba_words(4096 + number * size // 512, size // 512)
        cids.append(queue.next_cid())
        capsule = nvme.sqe(Io.READ, nsid=1, sgl=sgl, cdw=words)
        queue.submit(capsule[:2] + struct.pack("<H", cids[-1]) + capsule[4:])
        regions.append(region)
    queue.peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    seen: list[str] = []
    responded: list[int] = []
    while len(responded) < len(cids):
        event = queue.peer.event()
        what = "response" if isinstance(event, Received) else "data"
        if isinstance(event, Received):
            cqe = expect(queue.take(event))
            responded.append(cqe.cid)
            at = len(responded) - 1
            assert bytes(regions[at].data) == data[at * size : (at + 1) * size]
        if seen[-1:] != [what]:
            seen.append(what)
    assert responded == cids
    assert seen == ["data", "response"] * 4
