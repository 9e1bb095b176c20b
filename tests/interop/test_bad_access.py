# SPDX-License-Identifier: BSD-3-Clause
"""A host that learns an STag of the target and tries to access more than it was given.

The target reveals STags only as the destinations of its RDMA READ requests.  Each test leaves
such a request unanswered and misuses its STag, on the same connection or on a different one.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.served import SUBNQN, Served
from wire import nvme, rdmap
from wire.host import NvmeHost, Queue, lba_words
from wire.memory import Region
from wire.nvme import Io
from wire.peer import ReadAsked
from wire.rdmap import Op, ReadRequest

pytestmark = pytest.mark.usefixtures("unharmed")

DDP = [(1, 1, code) for code in range(5)]
RDMAP = [(0, 1, code) for code in range(5)]
NO_BUFFER = (1, 2, 2)
PROTECTION = (DDP[0], DDP[1], DDP[2], RDMAP[0], RDMAP[1], RDMAP[2], RDMAP[3])
LBA, BLOCKS = 2000, 16
SIZE = BLOCKS * 512
OLD = bytes([0x5A]) * SIZE


@dataclass
class Pending:
    """A Write command whose data the target has requested and not received."""

    host: NvmeHost
    queue: Queue
    region: Region
    request: ReadRequest
    cid: int


@pytest.fixture
def pending(target: Served) -> Iterator[Pending]:
    """A write in progress over blocks that hold OLD, which must still be there afterwards."""
    with NvmeHost(target.address, SUBNQN).connect() as host:
        host.write(LBA, OLD)
        yield begin(host)
    with NvmeHost(target.address, SUBNQN).connect() as host:
        assert host.read(LBA, BLOCKS) == OLD, "a transfer that failed changed the namespace"


def begin(host: NvmeHost, size: int = SIZE, lba: int = LBA) -> Pending:
    """Submit a Write and receive the RDMA READ request for its data, without answering it."""
    queue = host.queues[1]
    queue.peer.serve_reads = False
    region = queue.memory.register(secrets.token_bytes(size), writable=False)
    sgl = nvme.keyed(region.base, size, region.stag)
    cid = queue.next_cid()
    words = lba_words(lba, size // 512)
    queue.submit(nvme.sqe(Io.WRITE, nsid=1, cid=cid, sgl=sgl, cdw=words))
    event = queue.peer.event()
    assert isinstance(event, ReadAsked)
    assert event.request.source_stag == region.stag
    return Pending(host, queue, region, event.request, cid)


def check_end(queue: Queue, codes: tuple[tuple[int, int, int], ...]) -> None:
    """Check that the stream ends with one of these codes."""
    found = queue.peer.ending()
    assert found is not None, "the stream ended without a Terminate (RFC 5040 6.2)"
    if codes:
        assert (found.layer, found.etype, found.code) in codes, str(found)


WRITES = [
    ("at the sink itself", 0, 8, PROTECTION),
    ("before the sink", -8, 8, PROTECTION),
    ("across its end", SIZE - 4, 8, PROTECTION),
    ("far past its end", 1 << 40, 8, (*PROTECTION, DDP[3])),
    ("wrapping round", None, 16, (*PROTECTION, DDP[3], RDMAP[4])),
]


@pytest.mark.parametrize(("name", "offset", "size", "codes"), WRITES, ids=[w[0] for w in WRITES])
def test_write(
    pending: Pending, name: str, offset: int | None, size: int, codes: tuple[tuple[int, int, int]]
) -> None:
    """RDMA WRITE by a host: it may not write to the destination of a read (RFC 5040 7.1, RFC 5041
    8.1).
    """
    request = pending.request
    to = (1 << 64) - 8 if offset is None else (request.sink_to + offset) % (1 << 64)
    pending.queue.peer.write(request.sink_stag, to, bytes(size))
    check_end(pending.queue, codes)


@pytest.mark.parametrize("offset", [0, SIZE, 1 << 40])
def test_read(pending: Pending, offset: int) -> None:
    """RDMA READ by a host: it may read no memory of the target."""
    request = pending.request
    to = (request.sink_to + offset) % (1 << 64)
    pending.queue.peer.read_request(ReadRequest(0x77, 0, 64, request.sink_stag, to))
    check_end(pending.queue, (*PROTECTION, NO_BUFFER))


@pytest.mark.parametrize("verb", ["write", "read", "invalidate"])
def test_foreign_stag(target: Served, pending: Pending, verb: str) -> None:
    """The STag of one connection on a different one: only that connection ends."""
    stag, to = pending.request.sink_stag, pending.request.sink_to
    with NvmeHost(target.address, SUBNQN).connect() as other:
        peer = other.queues[1].peer
        if verb == "write":
            peer.write(stag, to, bytes(64))
        elif verb == "read":
            peer.read_request(ReadRequest(0x77, 0, 64, stag, to))
        else:
            peer.send(nvme.sqe(Io.FLUSH, nsid=1), op=Op.SEND_INVALIDATE, invalidate=stag)
        check_end(other.queues[1], (*PROTECTION, NO_BUFFER, (0, 1, 9), (0, 2, 9)))
    # The first connection still works: its data arrives, and the write completes.
    pending.region.data[:] = OLD
    pending.queue.peer.answer_read(pending.request)
    assert pending.queue.response(pending.cid).status == 0


@pytest.mark.feature("invalidate")
def test_invalidate(pending: Pending) -> None:
    """Send with Invalidate of the target's own STag (RFC 5040 7.1)."""
    capsule = nvme.sqe(Io.FLUSH, nsid=1)
    stag = pending.request.sink_stag
    pending.queue.peer.send(capsule, op=Op.SEND_INVALIDATE, invalidate=stag)
    check_end(pending.queue, ((0, 1, 9), (0, 2, 9), *PROTECTION))


RESPONSES = [
    ("another STag", 1, 0, 64, False),
    ("another offset", 0, 64, 64, False),
    ("before the sink", 0, -64, 64, False),
    ("too much", 0, 0, SIZE + 64, True),
    ("too little", 0, 0, SIZE - 64, True),
    ("nothing", 0, 0, 0, True),
]


@pytest.mark.parametrize(
    ("name", "stag", "offset", "size", "last"), RESPONSES, ids=[r[0] for r in RESPONSES]
)
def test_read_response(
    pending: Pending, name: str, stag: int, offset: int, size: int, last: bool
) -> None:
    """A Read Response that does not match its request (RFC 5040 5.2) never completes a write."""
    request = pending.request
    ulpdu = rdmap.encode_tagged(
        Op.READ_RESPONSE,
        request.sink_stag ^ stag,
        request.sink_to + offset,
        bytes(size),
        last=last,
    )
    pending.queue.peer.send_ulpdu(ulpdu)
    check_end(pending.queue, ())


def test_second_response(pending: Pending) -> None:
    """A second answer to the same request."""
    pending.region.data[:] = OLD
    pending.queue.peer.answer_read(pending.request)
    assert pending.queue.response(pending.cid).status == 0
    pending.queue.peer.answer_read(pending.request)
    check_end(pending.queue, ())


@pytest.mark.parametrize("how", ["fin", "rst", "terminate", "garbage"])
@pytest.mark.parametrize("fraction", [0, 0.5, 1])
def test_dies_within_a_transfer(pending: Pending, how: str, fraction: float) -> None:
    """Half of the data, then the end of the connection: OLD is still there (see the fixture)."""
    peer, request = pending.queue.peer, pending.request
    part = bytes(pending.region.data[: int(SIZE * fraction) - int(SIZE * fraction) % 64])
    if part:
        to = request.sink_to
        peer.send_ulpdu(
            rdmap.encode_tagged(Op.READ_RESPONSE, request.sink_stag, to, part, last=False)
        )
    if how == "rst":
        peer.reset()
    elif how == "terminate":
        peer.terminate(0, 1, 0)
        peer.ending()
    elif how == "garbage":
        peer.send_raw(b"\x00\x40" + b"\xff" * 70)
        peer.ending()
    else:
        peer.close()


def test_no_torn_megabyte(target: Served) -> None:
    """A large write that ends when most of it has arrived leaves each block entirely old or new."""
    size = 1 << 20
    with NvmeHost(target.address, SUBNQN).connect() as host:
        old = bytes([0x5A]) * (size // 2)
        host.write(4096, old)
        host.write(4096 + size // 1024, old)
        pending = begin(host, size, 4096)
        asked = pending.request
        data = b"".join(bytes([n & 0xFF ^ 0xA5]) * 512 for n in range(asked.size // 512))
        cut = asked.size // 2 + 100 & ~3
        for offset in range(0, cut, 8192):
            part = data[offset : min(cut, offset + 8192)]
            pending.queue.peer.send_ulpdu(
                rdmap.encode_tagged(
                    Op.READ_RESPONSE, asked.sink_stag, asked.sink_to + offset, part, last=False
                )
            )
        pending.queue.peer.reset()
    with NvmeHost(target.address, SUBNQN).connect() as host:
        for lba in range(4096, 4096 + size // 512, 128):
            found = host.read(lba, 128)
            for block in range(128):
                piece = found[block * 512 : block * 512 + 512]
                assert len(set(piece)) == 1, f"LBA {lba + block} is torn"


def test_stags_are_no_series(target: Served) -> None:
    """The target's STags cannot be predicted from earlier ones."""
    stags = []
    for _ in range(12):
        with NvmeHost(target.address, SUBNQN).connect() as host:
            stags.append(begin(host).request.sink_stag)
    gaps = {second - first for first, second in itertools.pairwise(stags)} - {0}
    assert len(set(stags)) == 1 or len(gaps) > len(stags) // 2, [hex(stag) for stag in stags]
