# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that stop reading, stop sending, or die: others continue, and resources are released."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from support.served import SANITIZED, SUBNQN, Served
from support.witness import Witness
from wire import mpa, nvme, rdmap
from wire.errors import ConnectionEnded
from wire.host import NvmeHost, Queue, lba_words
from wire.nvme import Admin, Io
from wire.peer import ReadAsked

pytestmark = pytest.mark.usefixtures("unharmed")

LARGE = 1 << 20


def submit_reads(queue: Queue, count: int, size: int) -> None:
    """Request data, and read none of it."""
    region = queue.memory.register(size, readable=False)
    sgl = nvme.keyed(region.base, size, region.stag)
    for cid in range(1, count + 1):
        words = lba_words(0, size // 512)
        queue.submit(nvme.sqe(Io.READ, nsid=1, cid=cid, sgl=sgl, cdw=words))


def test_stops_reading(target: Served, bystander: Witness) -> None:
    """Four queues request 31 MiB and do not read it; later they read all of it."""
    with NvmeHost(target.address, SUBNQN).connect(io_queues=4) as host:
        host.write(0, bytes(range(256)) * 256)
        for queue in host.queues[1:]:
            submit_reads(queue, 31, LARGE)
        for _ in range(20):
            bystander.check()
        assert host.identify(1)
        for cid in range(1, 32):
            assert host.queues[1].response(cid).status == 0


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_stops_reading_and_dies(target: Served, bystander: Witness, how: str) -> None:
    """The host stops reading, and disconnects with all commands outstanding."""
    host = NvmeHost(target.address, SUBNQN).connect(io_queues=4)
    for queue in host.queues[1:]:
        submit_reads(queue, 31, LARGE)
    bystander.check()
    for queue in host.queues:
        if how == "rst":
            queue.peer.reset()
        else:
            queue.close()


def test_stops_reading_for_ever(target: Served) -> None:
    """A host that reads nothing and sends no Keep Alive is disconnected after its KATO."""
    host = NvmeHost(target.address, SUBNQN, kato=1000).connect()
    queue = host.queues[1]
    submit_reads(queue, 31, LARGE)
    host.admin.peer.ending()
    with pytest.raises(ConnectionEnded):
        while True:
            queue.peer.event()
    host.close()


@pytest.mark.parametrize(("count", "asked"), [(1, 1), (8, 1), (1, 31), (8, 31)])
def test_never_answers_reads(target: Served, bystander: Witness, count: int, asked: int) -> None:
    """Writes whose data never arrives hold no buffer that a different host needs."""
    hosts = [NvmeHost(target.address, SUBNQN).connect() for _ in range(count)]
    for host in hosts:
        queue = host.queues[1]
        queue.peer.serve_reads = False
        region = queue.memory.register(LARGE, writable=False)
        sgl = nvme.keyed(region.base, LARGE, region.stag)
        for cid in range(1, asked + 1):
            words = lba_words(1000, LARGE // 512)
            queue.submit(nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=sgl, cdw=words))
    try:
        for _ in range(10):
            bystander.check()
    finally:
        for host in hosts:
            host.close()


def test_gives_data_and_takes_none(target: Served) -> None:
    """A host that answers an RDMA READ now and then, but does not take the data of its Reads, does
    not keep others from writing those blocks.
    """
    answers = 20
    host = NvmeHost(target.address, SUBNQN).connect(depth=128)
    queue = host.queues[1]
    queue.peer.serve_reads = False
    region = queue.memory.register(512, writable=False)
    sgl = nvme.keyed(region.base, 512, region.stag)
    for cid in range(1000, 1000 + answers):
        queue.submit(nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=sgl, cdw=lba_words(100_000 + cid, 1)))
    asked: list[ReadAsked] = []
    while len(asked) < answers:
        if isinstance(event := queue.peer.event(), ReadAsked):
            asked.append(event)
    submit_reads(queue, 31, LARGE)
    given = 0
    with NvmeHost(target.address, SUBNQN).connect() as other, ThreadPoolExecutor(1) as pool:
        written = pool.submit(other.write, 5, b"w" * 512)
        while given < answers and not wait([written], timeout=1).done:
            with contextlib.suppress(OSError):  # the target has ended the connection
                queue.peer.answer_read(asked[given].request)
            given += 1
        written.result()
    host.close()
    assert given < answers, "the Write waited until the host had nothing more to give"


@pytest.mark.parametrize("sent", [1, 2, 19, 24, 83])
def test_stops_within_a_frame(target: Served, bystander: Witness, sent: int) -> None:
    """Half an FPDU, silence, the other half: a slow host is not an error."""
    with NvmeHost(target.address, SUBNQN).connect() as host:
        queue = host.queues[1]
        capsule = nvme.sqe(Io.FLUSH, nsid=1, cid=6)
        fpdu = mpa.encode_fpdu(rdmap.encode_untagged(3, capsule, msn=queue.peer.msn[0]), False)
        queue.peer.send_raw(fpdu[:sent])
        bystander.check()
        queue.peer.send_raw(fpdu[sent:])
        assert queue.response(6).status == 0


def test_byte_by_byte(target: Served) -> None:
    """Each byte of a command comes in a separate TCP segment."""
    with NvmeHost(target.address, SUBNQN, crc=True).connect() as host:
        queue = host.queues[1]
        capsule = nvme.sqe(Io.WRITE, nsid=1, cid=6, sgl=nvme.in_capsule(0, 512), cdw=(70,))
        ulpdu = rdmap.encode_untagged(3, capsule + b"b" * 512, msn=queue.peer.msn[0])
        queue.peer.msn[0] += 1
        for byte in mpa.encode_fpdu(ulpdu, True):
            queue.peer.send_raw(bytes([byte]))
        assert queue.response(6).status == 0
        assert host.read(70, 1) == b"b" * 512


def test_many_frames_in_one_segment(target: Served) -> None:
    """Sixteen commands in one write of the socket."""
    with NvmeHost(target.address, SUBNQN).connect() as host:
        queue = host.queues[1]
        data = b""
        for cid in range(1, 17):
            ulpdu = rdmap.encode_untagged(
                3, nvme.sqe(Io.FLUSH, nsid=1, cid=cid), msn=queue.peer.msn[0]
            )
            queue.peer.msn[0] += 1
            data += mpa.encode_fpdu(ulpdu, False)
        queue.peer.send_raw(data)
        assert all(queue.response(cid).status == 0 for cid in range(1, 17))


def test_half_closed(target: Served) -> None:
    """A host sends FIN after a command: answered or not, the target releases the connection."""
    with NvmeHost(target.address, SUBNQN).connect() as host:
        queue = host.queues[1]
        queue.submit(nvme.sqe(Io.FLUSH, nsid=1, cid=6))
        queue.peer.sock.shutdown(socket.SHUT_WR)
        queue.peer.ending()


def test_hosts_come_and_go(target: Served, bystander: Witness) -> None:
    """Hosts die three hundred times: memory and descriptors return to their earlier numbers."""
    for _ in range(30):
        NvmeHost(target.address, SUBNQN).connect(io_queues=2).close()
    bystander.check()
    descriptors = target.descriptors
    grown = []
    for _ in range(3):  # a leak shows every time
        resident = target.resident
        hosts_come_and_go(target)
        target.settle(descriptors)
        bystander.check()
        grown.append(target.resident - resident)
        if grown[-1] < 3 << 20:
            break
    assert SANITIZED or grown[-1] < 3 << 20, f"{grown[-1] / 300:.0f} bytes a host"


def hosts_come_and_go(target: Served) -> None:
    """Three hundred hosts connect, and end in three ways."""
    for round_ in range(300):
        host = NvmeHost(target.address, SUBNQN).connect(io_queues=2)
        queue = host.queues[1]
        if round_ % 3 == 0:
            host.shutdown()
        elif round_ % 3 == 1:
            submit_reads(queue, 4, 65536)
            for one in host.queues:
                one.peer.reset()
        else:
            queue.peer.send_raw(b"\xff" * 100)
            host.close()


def test_bad_handshakes_come_and_go(target: Served) -> None:
    """Invalid handshakes leave no resources allocated."""
    descriptors = target.descriptors
    grown = []
    for _ in range(4):  # the first one warms up; a leak shows every time
        resident = target.resident
        bad_handshakes(target)
        target.settle(descriptors)
        grown.append(target.resident - resident)
        if len(grown) > 1 and grown[-1] < 2 << 20:
            break
    assert SANITIZED or grown[-1] < 2 << 20, grown


def bad_handshakes(target: Served) -> None:
    """Send four hundred handshakes, truncated at all lengths."""
    private = [b"", nvme.cm_request(0, 32, 31, recfmt=1), nvme.cm_request(0xFFFF, 32, 31)]
    for round_ in range(400):
        sock = socket.create_connection(target.address)
        data = mpa.enhanced_data(128, 0, private[round_ % 3])
        sock.sendall(mpa.StartFrame(False, 0x1002, data).encode()[: 20 + round_ % 60])
        if round_ % 2:
            sock.settimeout(0.02)
            with contextlib.suppress(OSError):
                sock.recv(100)
        sock.close()


@pytest.mark.parametrize("queues", [4, 64])
def test_one_host_never_answers_reads(target: Served, bystander: Witness, queues: int) -> None:
    """A host with as many queues as permitted does not monopolise the target."""
    host = NvmeHost(target.address, SUBNQN).connect(io_queues=queues)
    try:
        for queue in host.queues[1:]:
            queue.peer.serve_reads = False
            region = queue.memory.register(LARGE, writable=False)
            sgl = nvme.keyed(region.base, LARGE, region.stag)
            for cid in range(1, 32):
                words = lba_words(1000, LARGE // 512)
                queue.submit(nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=sgl, cdw=words))
        bystander.check()
        NvmeHost(target.address, SUBNQN).connect().close()
    finally:
        host.close()


@pytest.mark.feature("abort")
def test_abort_of_what_waits(target: Served, bystander: Witness) -> None:
    """Writes whose data never arrives: those waiting for a buffer can be aborted, the first
    cannot.
    """
    with NvmeHost(target.address, SUBNQN).connect() as host:
        queue = host.queues[1]
        queue.peer.serve_reads = False
        region = queue.memory.register(LARGE, writable=False)
        sgl = nvme.keyed(region.base, LARGE, region.stag)
        for cid in range(1, 32):
            words = lba_words(1000, LARGE // 512)
            queue.submit(nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=sgl, cdw=words))
        abort = nvme.sqe(Admin.ABORT, cdw=(31 << 16 | 1,))
        while host.admin.call(abort).dw0 & 1:
            bystander.check()  # it is still in progress
        assert nvme.status_name(queue.response(31).status) == "ABORTED_BY_REQUEST"
        assert host.admin.call(nvme.sqe(Admin.ABORT, cdw=(1 << 16 | 1,))).dw0 & 1
        assert host.admin.call(nvme.sqe(Admin.ABORT, cdw=(31 << 16 | 1,))).dw0 & 1
