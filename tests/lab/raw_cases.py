# SPDX-License-Identifier: BSD-3-Clause
"""The pyverbs host's cases with our target; run in the guest, prints a line of JSON for each
case.

``raw_cases.py ADDRESS PORT SUBNQN iwarp|rocev2``
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from functools import partial

import pyverbs.enums as e

from lab.raw_verbs import ACCESS, Connection, Ended, Refused
from wire import nvme
from wire.nvme import Admin, Io, Reject

Where = tuple[str, int]
HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000aa"
HOSTID = bytes(range(16))
NSID = 2
BLOCK = 4096
CC, CC_ENABLE = 0x14, 0x00460001
SECONDS = 600
"""Time limit of the whole run."""


def _ok(cqe: nvme.Cqe) -> nvme.Cqe:
    assert cqe.status == 0, nvme.status_name(cqe.status)
    return cqe


class Host:
    """A controller with an admin queue and one I/O queue."""

    def __init__(self, where: Where, subnqn: str) -> None:
        self.where, self.subnqn = where, subnqn
        self.admin = Connection.open(where)
        self.cntlid = self._connect(self.admin, 0xFFFF)
        _ok(self.admin.call(nvme.property_set(CC, CC_ENABLE)))
        while not self.admin.call(nvme.property_get(0x1C)).dw0 & 1:
            pass
        self.io = self.queue()

    def queue(self) -> Connection:
        """Open a new connection for I/O queue 1, after the last one has ended."""
        queue = Connection.open(self.where, 1, 32, self.cntlid)
        self._connect(queue, self.cntlid)
        return queue

    def _connect(self, queue: Connection, cntlid: int) -> int:
        data = nvme.connect_data(HOSTID, cntlid, self.subnqn, HOSTNQN)
        if queue.qid:  # as in Linux: the data is in the capsule
            sgl = nvme.in_capsule(0, len(data))
            return _ok(queue.call(nvme.connect(queue.qid, 31, sgl=sgl), data)).dw0 & 0xFFFF
        region = queue.region(len(data))
        region.write(data, len(data))
        sgl = nvme.keyed(region.buf, len(data), region.rkey)
        return _ok(queue.call(nvme.connect(queue.qid, 31, sgl=sgl))).dw0 & 0xFFFF

    def rw(self, opcode: int, lba: int, blocks: int, sgl: bytes, data: bytes = b"") -> nvme.Cqe:
        """A Read or Write of the namespace."""
        cdw = (lba & 0xFFFFFFFF, lba >> 32, blocks - 1)
        return self.io.call(nvme.sqe(opcode, nsid=NSID, sgl=sgl, cdw=cdw), data)

    def close(self) -> None:
        for queue in (self.io, self.admin):
            queue.disconnect()
            queue.close()


# ---- the connection manager ----


def rejected(where: Where, private_data: bytes, sts: Reject, reads: int = 8) -> None:
    """The target gives the reason, by number."""
    sts_of_reject = None
    try:
        Connection(where, private_data, reads=reads).close()
    except Refused as refused:
        sts_of_reject = refused.sts
    assert sts_of_reject == sts, f"reject {sts_of_reject}, not {int(sts)}"


REJECTS: dict[str, tuple[bytes, Reject, int]] = {
    "record format 1": (nvme.cm_request(0, 32, 31, recfmt=1), Reject.RECFMT, 8),
    "queue 65535": (nvme.cm_request(0xFFFF, 32, 31), Reject.QID, 8),
    "queue of one entry": (nvme.cm_request(0, 32, 0), Reject.HSQSIZE, 8),
    "admin queue of 129 entries": (nvme.cm_request(0, 129, 128), Reject.HSQSIZE, 8),
    "queue of 65536 entries": (nvme.cm_request(1, 32, 0xFFFF), Reject.HSQSIZE, 8),
    "no responses": (nvme.cm_request(0, 0, 31), Reject.HRQSIZE, 8),
    "no reads": (nvme.cm_request(0, 32, 31), Reject.IRD, 0),
}
SHORT: dict[str, tuple[bytes, Reject, int]] = {
    f"private data of {size} bytes": (nvme.cm_request(0, 32, 31, size=size), Reject.LENGTH, 8)
    for size in (1, 10, 31)
}


# ---- capsules ----


def connect_and_identify(host: Host) -> None:
    """The connection is accepted with a CRQSIZE, and Identify Controller arrives by RDMA WRITE."""
    recfmt, crqsize = struct.unpack_from("<HH", host.admin.reply)
    assert (recfmt, crqsize) == (0, 32), (recfmt, crqsize)
    capabilities = _ok(host.admin.call(nvme.property_get(0, 8)))
    assert capabilities.dw0 & 0xFFFF >= 31, "CAP.MQES"
    page = host.admin.region(4096)
    sgl = nvme.keyed(page.buf, 4096, page.rkey)
    _ok(host.admin.call(nvme.sqe(Admin.IDENTIFY, sgl=sgl, cdw=(1,))))
    data = page.read(4096, 0)
    assert data[768:1024].rstrip(b"\0").decode() == host.subnqn
    assert int.from_bytes(data[78:80], "little") == host.cntlid


def in_capsule_and_back(host: Host) -> None:
    """Data is written from the capsule, and read by RDMA WRITE."""
    data = os.urandom(BLOCK)
    _ok(host.rw(Io.WRITE, 5, 1, nvme.in_capsule(0, BLOCK), data))
    back = host.io.region(BLOCK)
    _ok(host.rw(Io.READ, 5, 1, nvme.keyed(back.buf, BLOCK, back.rkey)))
    assert back.read(BLOCK, 0) == data


def keyed_and_back(host: Host) -> None:
    """1 MiB is written by RDMA READ and read by RDMA WRITE, in the middle of a region."""
    size, offset = 1 << 20, 24
    there = host.io.region(size + 4096)
    data = os.urandom(size)
    there.write(data, size, offset)
    _ok(host.rw(Io.WRITE, 64, size // BLOCK, nvme.keyed(there.buf + offset, size, there.rkey)))
    back = host.io.region(size + 4096)
    _ok(host.rw(Io.READ, 64, size // BLOCK, nvme.keyed(back.buf + offset, size, back.rkey)))
    assert back.read(size, offset) == data
    assert back.read(offset, 0) == bytes(offset)
    assert back.read(64, size + offset) == bytes(64)


def invalidated(host: Host) -> None:
    """A key that the command lets the target invalidate is invalid: its next use ends the
    connection.
    """
    back = host.io.region(BLOCK)
    sgl = nvme.keyed(back.buf, BLOCK, back.rkey, kind=0x4F)
    _ok(host.io.call(nvme.sqe(Io.READ, nsid=NSID, sgl=sgl, cdw=(5, 0, 0))))
    sgl = nvme.keyed(back.buf, BLOCK, back.rkey)
    host.io.ends(nvme.sqe(Io.READ, cid=78, nsid=NSID, sgl=sgl, cdw=(5, 0, 0)))


class ReadRequests:
    """Reads the destinations in RDMA Read Requests on the wire, which peers learn."""

    HEADER = b"\x00\x2e\x41\x41"
    """Headers of an FPDU of 46 bytes: DDP untagged and last, RDMAP Read Request (RFC 5040, 4.4)."""

    def __init__(self) -> None:
        every = socket.htons(3)  # ETH_P_ALL
        self._wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every)
        self._wire.setblocking(False)

    def sinks(self) -> list[tuple[int, int, int]]:
        """Return STag, tagged offset and length of each request since the last call."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = self._wire.recv(65536)
                at = frame.find(self.HEADER)
                if at >= 0 and frame[at + 8 : at + 12] == b"\0\0\0\x01":  # queue number 1
                    found.append(struct.unpack_from(">IQI", frame, at + 20))
        return found

    def close(self) -> None:
        self._wire.close()


def key_of_another(host: Host) -> None:
    """The key to the buffer of one host's data cannot be used by a different host."""
    wire = ReadRequests()
    there = host.io.region(BLOCK)
    data = os.urandom(BLOCK)
    there.write(data, BLOCK)
    _ok(host.rw(Io.WRITE, 7, 1, nvme.keyed(there.buf, BLOCK, there.rkey)))
    sinks = wire.sinks()
    wire.close()
    assert sinks, "no RDMA Read Request was seen"
    stag, offset, length = sinks[-1]
    assert length == BLOCK, sinks
    thief = Host(host.where, host.subnqn)
    try:
        thief.io.rdma_write(os.urandom(BLOCK), stag, offset)
        thief.io.call(nvme.sqe(Io.FLUSH, nsid=NSID))
    except Ended:
        pass
    else:
        raise AssertionError(f"another host wrote to {offset:#x} by STag {stag:#x}")
    finally:
        thief.io.close()
    _ok(thief.admin.call(nvme.property_get(0x1C)))
    back = host.io.region(BLOCK)
    _ok(host.rw(Io.READ, 7, 1, nvme.keyed(back.buf, BLOCK, back.rkey)))
    assert back.read(BLOCK, 0) == data


# ---- ends of a connection: that of the host's I/O queue ends, and its admin queue remains ----


def truncated(host: Host) -> None:
    host.io.ends(nvme.sqe(Io.FLUSH, nsid=NSID)[:63])


def oversized(host: Host) -> None:
    host.io.ends(nvme.sqe(Io.FLUSH, nsid=NSID) + bytes(8192))


def _refused(host: Host, opcode: int, access: int, change: int = 0) -> None:
    """The host's device refuses the target's RDMA, and no data is transferred."""
    page = host.io.region(BLOCK, access)
    sgl = nvme.keyed(page.buf, BLOCK, page.rkey ^ change)
    host.io.ends(nvme.sqe(opcode, nsid=NSID, sgl=sgl, cdw=(5, 0, 0)))
    assert page.read(BLOCK, 0) == bytes(BLOCK)


GOOD: dict[str, Callable[[Host], None]] = {
    "connect and identify": connect_and_identify,
    "in-capsule write and read": in_capsule_and_back,
    "keyed write and read": keyed_and_back,
    "key of another host": key_of_another,
}
IWARP_ONLY = (*SHORT, "key given away", "key of another host")
"""An InfiniBand CM message has no length of its private data, rxe invalidates no region, and its
RDMA READs reveal no key to their destination.
"""
BAD: dict[str, Callable[[Host], None]] = {
    "key given away": invalidated,
    "truncated capsule": truncated,
    "oversized send": oversized,
    "unknown key of a read": partial(_refused, opcode=Io.READ, access=ACCESS, change=0x700),
    "unknown key of a write": partial(_refused, opcode=Io.WRITE, access=ACCESS, change=0x700),
    "memory that is read-only": partial(
        _refused, opcode=Io.READ, access=e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ
    ),
}
ROCE_ONLY = ("unknown key of a write",)
"""siw does not answer an RDMA READ of memory that does not exist, nor end the connection."""
DISCONNECT = "disconnect"


def names(iwarp: bool) -> list[str]:
    """Return the names of the cases, in order."""
    every = [*REJECTS, *SHORT, *GOOD, *BAD, DISCONNECT]
    return [name for name in every if name not in (ROCE_ONLY if iwarp else IWARP_ONLY)]


def _run(name: str, case: Callable[[], None]) -> bool:
    try:
        case()
        why = ""
    except Exception:
        why = traceback.format_exc()
    print(json.dumps({"case": name, "why": why}), flush=True)
    return not why


def main(address: str, port: str, subnqn: str, kind: str) -> None:
    """Run all of them."""
    signal.alarm(SECONDS)
    iwarp = kind == "iwarp"
    where = (address, int(port))
    for name, (private_data, sts, reads) in {**REJECTS, **SHORT}.items():
        if name in names(iwarp):
            _run(name, partial(rejected, where, private_data, sts, reads))
    host = Host(where, subnqn)
    for name, good in GOOD.items():
        if name not in names(iwarp):
            continue
        _run(name, partial(good, host))
    for name, bad in BAD.items():
        if name not in names(iwarp):
            continue
        if _run(name, partial(_breaks, host, bad)):
            host.io.close()
            host.io = host.queue()
        else:
            host = Host(where, subnqn)  # the state of the last host is unknown
    _run(DISCONNECT, host.close)


def _breaks(host: Host, case: Callable[[Host], None]) -> None:
    """Check that the I/O queue ends; the admin queue and the target continue."""
    case(host)
    _ok(host.admin.call(nvme.property_get(0x1C)))


if __name__ == "__main__":
    main(*sys.argv[1:])
