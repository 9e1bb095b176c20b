# SPDX-License-Identifier: BSD-3-Clause
"""Invariant: whatever capsules and frames arrive, every valid host's command gets one answer.

The generators are seeded, so that a failure can be repeated; more seeds: NVMF_RANDOM=first:count.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Callable

import pytest

from support.served import PRIVATE_NQN, SUBNQN, Served
from wire import mpa, nvme, rdmap
from wire.errors import ConnectionEnded, Rejected, WireViolation
from wire.host import NvmeHost, Queue, Terminated
from wire.memory import Region
from wire.peer import IwarpPeer
from wire.rdmap import ReadRequest

pytestmark = pytest.mark.usefixtures("unharmed")

_FIRST, _COUNT = (int(part) for part in os.environ.get("NVMF_RANDOM", "0:4").split(":"))
SEEDS = range(_FIRST, _FIRST + _COUNT)
LOW_LBA = 90_000
FUSED_FIRST = 1
"""FUSE: the first half of a pair."""
INTERESTING = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 64, 127, 128, 255, 256, 511, 512, 513, 1023, 1024,
               4095, 4096, 4097, 65535, 65536, 131071, 131072, 1 << 20, (1 << 24) - 1, 1 << 31,
               (1 << 32) - 1, 1 << 40, 1 << 63, (1 << 64) - 1]  # fmt: skip
ADMIN = [0x02, 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x18, 0x7F]
IO = [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0C, 0x7F]


def number(rng: random.Random, width: int) -> int:
    """Return an integer of this width, often near a limit."""
    value = rng.choice(INTERESTING) if rng.random() < 0.7 else rng.getrandbits(64)
    return value + rng.choice((0, 0, 0, -1, 1)) & (1 << width) - 1


def descriptor(rng: random.Random, region: Region) -> bytes:
    """Return an SGL descriptor, mostly of an existing kind and within the region."""
    if rng.random() < 0.6:
        size = rng.choice((0, 512, 1024, 4096, 8192, 16, 1024))
        return nvme.keyed(region.base, size, region.stag, kind=rng.choice((0x40, 0x4F)))
    if rng.random() < 0.5:
        length = number(rng, 13)
        return nvme.in_capsule(number(rng, 12), length, kind=rng.choice((1, 1, 0x31)))
    return rng.randbytes(15) + bytes([rng.choice((0, 1, 0x31, 0x41, 0x50, rng.getrandbits(8)))])


def capsule(rng: random.Random, region: Region, io: bool) -> bytes:
    """Return any command; writes stay below the witness's blocks."""
    opcode = rng.choice(IO if io else ADMIN) if rng.random() < 0.9 else rng.getrandbits(8)
    words = [number(rng, 32) if rng.random() < 0.5 else rng.getrandbits(3) for _ in range(6)]
    nsid = 1 if rng.random() < 0.8 else number(rng, 32)
    if io and opcode != 0x7F:
        if rng.random() < 0.8:
            words[0], words[1] = words[0] % LOW_LBA, 0
        if words[1] == 0 and words[0] < 200_000:
            words[2] &= 0xFFFF0FFF
    if opcode == 0x7F and words[1] == 0x14 and not io:
        words[1] = 0x1C  # CC: a shutdown would be valid
    flags = 0x40 if rng.random() < 0.95 else rng.getrandbits(8)
    made = nvme.sqe(opcode, nsid=nsid, flags=flags, sgl=descriptor(rng, region), cdw=tuple(words))
    if opcode == 0x7F:
        fctype = rng.choice((0, 4, 4, 1, 5, 6, rng.getrandbits(8)))
        made = made[:4] + bytes([fctype]) + made[5:]
    size = rng.choice((0, 0, 0, 16, 512, 4096)) if io else 0
    return made + rng.randbytes(size)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("io", [False, True], ids=["admin", "io"])
def test_commands(target: Served, seed: int, io: bool) -> None:
    """Four hundred capsules: each is answered, or ends its queue by a Terminate or a close."""
    rng = random.Random(seed)
    host = NvmeHost(target.address, SUBNQN).connect(depth=64)
    ends = 0
    for _ in range(400):
        queue = host.queues[io]
        region = queue.memory.register(8192)
        made = capsule(rng, region, io)
        if not io and made[0] == 0x0C:
            continue
        try:
            if io and made[1] & 3 == FUSED_FIRST:
                # The result of a first half is known when the next command arrives.
                cid = queue.next_cid()
                queue.submit(made[:2] + cid.to_bytes(2, "little") + made[4:])
                queue.call(nvme.sqe(0, nsid=1))
                queue.response(cid)
            else:
                queue.call(made[:64], made[64:])
        except WireViolation as violation:
            # The target used a descriptor of an unknown key: the host sends a Terminate.
            if "RDMA" not in str(violation):
                raise
            queue.peer.terminate(0, 1, 0)
            ends += 1
        except (ConnectionEnded, Terminated, ConnectionError):
            ends += 1
        else:
            queue.memory.unregister(region)
            continue
        host.close()
        host = NvmeHost(target.address, SUBNQN).connect(depth=64)
    host.close()
    assert ends < 200


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Return the data with some bytes changed, inserted or left out."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(out))
        how = rng.random()
        if how < 0.7:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, out[at] ^ 1 << rng.randrange(8)))
        elif how < 0.85:
            del out[at : at + rng.randrange(1, 5)]
        else:
            out[at:at] = rng.randbytes(rng.randrange(1, 5))
    return bytes(out) or b"\0"


def frames(rng: random.Random, queue: Queue, request: ReadRequest | None) -> bytes:
    """Return a frame that would be valid without the mutation."""
    msn = queue.peer.msn[0]
    made: list[Callable[[], bytes]] = [
        lambda: rdmap.encode_untagged(3, nvme.sqe(0, nsid=1), msn=msn),
        lambda: rdmap.encode_untagged(
            3, nvme.sqe(1, nsid=1, sgl=nvme.in_capsule(0, 512)) + bytes(512), msn=msn
        ),
        lambda: rdmap.encode_tagged(0, rng.getrandbits(32), rng.getrandbits(64), bytes(64)),
        lambda: rdmap.encode_untagged(
            1, ReadRequest(1, 2, 64, rng.getrandbits(32), 4).encode(), msn=1, qn=1
        ),
        lambda: rdmap.encode_untagged(7, rng.randbytes(rng.randrange(40)), msn=1, qn=2),
    ]
    if request is not None:
        to, stag = request.sink_to, request.sink_stag
        made.append(lambda: rdmap.encode_tagged(2, stag, to, bytes(request.size)))
        made.append(lambda: rdmap.encode_tagged(0, stag, to, bytes(64)))
    return mpa.encode_fpdu(rng.choice(made)(), queue.peer.crc)


@pytest.mark.parametrize("seed", SEEDS)
def test_frames(target: Served, seed: int) -> None:
    """Sixty connections with mutated frames in mid-stream, some during a transfer."""
    rng = random.Random(seed)
    for _ in range(60):
        host = NvmeHost(target.address, SUBNQN, crc=rng.random() < 0.2).connect(depth=16)
        queue = host.queues[1]
        request = None
        try:
            if rng.random() < 0.5:
                queue.peer.serve_reads = False
                region = queue.memory.register(4096)
                sgl = nvme.keyed(region.base, 4096, region.stag)
                queue.submit(nvme.sqe(1, nsid=1, cid=99, sgl=sgl, cdw=(100, 0, 7)))
                event = queue.peer.event()
                request = getattr(event, "request", None)
            for _ in range(rng.randrange(1, 4)):
                queue.peer.send_raw(mutate(rng, frames(rng, queue, request)))
            queue.peer.event(0.02)
        except (ConnectionEnded, TimeoutError, ConnectionError):
            pass
        except WireViolation as violation:
            # A READ REQUEST of no bytes needs no STag, and is answered (RFC 5040 5.2).
            if "Read Response" not in str(violation):
                raise
        finally:
            host.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_handshakes(target: Served, seed: int) -> None:
    """Two hundred mutated MPA requests and Connect data."""
    rng = random.Random(seed)
    for _ in range(200):
        private = nvme.cm_request(rng.choice((0, 1)), 32, 31)
        good = mpa.StartFrame(False, 0x1002, mpa.enhanced_data(128, 0, private)).encode()
        peer = IwarpPeer(socket.create_connection(target.address))
        try:
            peer.send_raw(mutate(rng, good))
            if rng.random() < 0.3:
                peer.sock.settimeout(0.01)
                peer.sock.recv(1000)
        except OSError:
            pass
        peer.close()
    for _ in range(100):
        try:
            queue = Queue.open(target.address)
        except (Rejected, ConnectionEnded) as error:
            raise AssertionError("a right request was refused") from error
        nqn = rng.choice((SUBNQN, PRIVATE_NQN))
        data = mutate(rng, nvme.connect_data(bytes(16), 0xFFFF, nqn, SUBNQN))
        region = queue.memory.register(data)
        command = bytearray(nvme.connect(0, 31, sgl=nvme.keyed(region.base, 1024, region.stag)))
        if rng.random() < 0.5:
            at = rng.randrange(40, 64)
            command[at] = rng.getrandbits(8)
        try:
            cqe = queue.call(bytes(command))
            assert struct.pack("<H", cqe.raw_status)
        except (WireViolation, ConnectionEnded, Terminated):
            pass
        queue.close()
