# SPDX-License-Identifier: BSD-3-Clause
"""NvmeHost: an NVMe-oF host with hand-made capsules, one command at a time."""

import contextlib
import secrets
import struct
from types import TracebackType

from wire import nvme
from wire.memory import Memory
from wire.nvme import Cqe, Io, Status
from wire.peer import TIMEOUT, IwarpPeer, Received
from wire.rdmap import Op, Terminate

CAP, VS, CC, CSTS = 0x00, 0x08, 0x14, 0x1C
CC_ENABLE = 0x460001
CC_ENABLE_CSI = 0x460061


class Terminated(Exception):
    """The target sent a Terminate instead of a response."""


class Refused(Exception):
    """A command failed that had to succeed; args[0] is its status."""


class Queue:
    """One connection and the commands on it."""

    def __init__(self, peer: IwarpPeer, qid: int, depth: int) -> None:
        self.peer = peer
        self.qid = qid
        self.depth = depth
        self.cid = 0
        self.sent = 0
        self.waiting: dict[int, Cqe] = {}
        """Responses that arrived before they were requested."""
        self.invalidated: dict[int, int | None] = {}
        """The STag that the response of each CID invalidated."""

    @classmethod
    def open(
        cls,
        address: tuple[str, int],
        qid: int = 0,
        depth: int = 32,
        cntlid: int = 0,
        *,
        crc: bool = False,
        ird: int = 128,
    ) -> "Queue":
        """Connect the transport: hrqsize is the depth, hsqsize is one less."""
        peer = IwarpPeer.connect(
            address, nvme.cm_request(qid, depth, depth - 1, cntlid), crc=crc, ird=ird
        )
        return cls(peer, qid, depth)

    @property
    def memory(self) -> Memory:
        """Registered memory."""
        return self.peer.memory

    def next_cid(self) -> int:
        """Return a command identifier that is not in use."""
        self.cid = self.cid % 0x7FFF + 1
        return self.cid

    def submit(self, capsule: bytes, data: bytes = b"") -> None:
        """Send a capsule unchanged."""
        self.sent += 1
        self.peer.send(capsule + data)

    def response(self, cid: int, timeout: float = TIMEOUT) -> Cqe:
        """Return the completion of cid."""
        while cid not in self.waiting:
            event = self.peer.event(timeout)
            if isinstance(event, Terminate):
                raise Terminated(str(event))
            if isinstance(event, Received):
                self.take(event)
        return self.waiting.pop(cid)

    def take(self, event: Received) -> Cqe:
        """Check a response capsule against RDMA Transport 1.0 and keep it."""
        cqe = nvme.decode_cqe(event.payload)
        if event.op not in (Op.SEND, Op.SEND_INVALIDATE):
            raise AssertionError(f"a response came by {event.op}")
        if cqe.raw_status & 1:
            raise AssertionError("the phase bit is set in a response capsule")
        # Reserved on fabrics (Base 2.0 4.6); nvmet puts the queue's identifier there.
        if cqe.sqid not in (0, self.qid):
            raise AssertionError(f"SQID {cqe.sqid} in a response on queue {self.qid}")
        if cqe.cid in self.waiting:
            raise AssertionError(f"two responses to CID {cqe.cid:#x}")
        self.waiting[cqe.cid] = cqe
        self.invalidated[cqe.cid] = event.invalidated
        return cqe

    def call(self, capsule: bytes, data: bytes = b"") -> Cqe:
        """Send a capsule with a new CID and wait for its completion."""
        cid = self.next_cid()
        self.submit(capsule[:2] + struct.pack("<H", cid) + capsule[4:], data)
        return self.response(cid)

    def call_read(self, opcode: int, size: int, *, nsid: int = 0, cdw: tuple[int, ...] = (),
                  kind: int = 0x4F) -> tuple[Cqe, bytes]:  # fmt: skip
        """Send a command that returns data by RDMA WRITE."""
        region = self.memory.register(size, readable=False)
        sgl = nvme.keyed(region.base, size, region.stag, kind=kind)
        cqe = self.call(nvme.sqe(opcode, nsid=nsid, sgl=sgl, cdw=cdw))
        self.memory.unregister(region)
        return cqe, bytes(region.data)

    def call_write(self, opcode: int, data: bytes, *, nsid: int = 0, cdw: tuple[int, ...] = (),
                   kind: int = 0x4F, flags: int = nvme.PSDT_SGL) -> Cqe:  # fmt: skip
        """Send a command whose data the target fetches by RDMA READ."""
        region = self.memory.register(data, writable=False)
        sgl = nvme.keyed(region.base, len(data), region.stag, kind=kind)
        cqe = self.call(nvme.sqe(opcode, nsid=nsid, sgl=sgl, cdw=cdw, flags=flags))
        self.memory.unregister(region)
        return cqe

    def close(self) -> None:
        """Close the connection."""
        self.peer.close()


def lba_words(lba: int, blocks: int, control: int = 0) -> tuple[int, ...]:
    """CDW10 to CDW12 of Read, Write, Compare, Write Zeroes and Verify."""
    return lba & 0xFFFFFFFF, lba >> 32, blocks - 1 | control << 16


def expect(cqe: Cqe, status: Status = Status.SUCCESS) -> Cqe:
    """Raise Refused unless the completion has this status."""
    if cqe.status != status:
        raise Refused(f"{nvme.status_name(cqe.status)}, not {status.name}: {cqe}")
    return cqe


class NvmeHost:
    """A controller: its admin queue and I/O queues."""

    def __init__(
        self,
        address: tuple[str, int],
        subnqn: str,
        *,
        hostnqn: str | None = None,
        hostid: bytes | None = None,
        kato: int = 0,
        crc: bool = False,
    ) -> None:
        self.address = address
        self.subnqn = subnqn
        self.hostid = hostid or secrets.token_bytes(16)
        made = f"nqn.2014-08.org.nvmexpress:uuid:{self._uuid()}"
        self.hostnqn = made if hostnqn is None else hostnqn
        self.kato = kato
        self.crc = crc
        self.cntlid = 0xFFFF
        self.queues: list[Queue] = []
        self.block_size = 512

    def _uuid(self) -> str:
        text = self.hostid.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    @property
    def admin(self) -> Queue:
        """The admin queue."""
        return self.queues[0]

    def data(self, cntlid: int) -> bytes:
        """The Connect data."""
        return nvme.connect_data(self.hostid, cntlid, self.subnqn, self.hostnqn)

    def connect_command(self, queue: Queue, sqsize: int | None = None, *, cattr: int = 0) -> Cqe:
        """Fabrics Connect on a queue, its data fetched by RDMA READ."""
        data = self.data(0xFFFF if queue.qid == 0 else self.cntlid)
        region = queue.memory.register(data, writable=False)
        sgl = nvme.keyed(region.base, len(data), region.stag)
        size = queue.depth - 1 if sqsize is None else sqsize
        kato = self.kato if queue.qid == 0 else 0
        return queue.call(nvme.connect(queue.qid, size, kato=kato, cattr=cattr, sgl=sgl))

    def connect(self, io_queues: int = 1, depth: int = 32) -> "NvmeHost":
        """Start the controller in the same way as Linux."""
        try:
            admin = Queue.open(self.address, crc=self.crc)
            self.queues.append(admin)
            self.cntlid = expect(self.connect_command(admin)).dw0 & 0xFFFF
            expect(admin.call(nvme.property_get(CAP, 8)))
            self.enable()
            if io_queues:
                counts = (io_queues - 1) << 16 | io_queues - 1
                expect(admin.call(nvme.sqe(nvme.Admin.SET_FEATURES, cdw=(7, counts))))
            for qid in range(1, io_queues + 1):
                self.add_queue(qid, depth)
        except BaseException:
            self.close()
            raise
        return self

    def enable(self) -> None:
        """Set CC.EN and wait for CSTS.RDY."""
        expect(self.admin.call(nvme.property_set(CC, CC_ENABLE_CSI)))
        for _ in range(100):
            if expect(self.admin.call(nvme.property_get(CSTS))).dw0 & 1:
                return
        raise AssertionError("CSTS.RDY does not come")

    def add_queue(self, qid: int, depth: int = 32) -> Queue:
        """Connect an I/O queue."""
        queue = Queue.open(self.address, qid, depth, self.cntlid, crc=self.crc)
        self.queues.append(queue)
        expect(self.connect_command(queue))
        return queue

    def identify(self, cns: int, nsid: int = 0, cdw11: int = 0) -> bytes:
        """Identify."""
        words = (cns, cdw11)
        cqe, data = self.admin.call_read(nvme.Admin.IDENTIFY, 4096, nsid=nsid, cdw=words)
        expect(cqe)
        return data

    def read(self, lba: int, blocks: int, *, nsid: int = 1, queue: int = 1) -> bytes:
        """Read, whole."""
        size = blocks * self.block_size
        words = lba_words(lba, blocks)
        cqe, data = self.queues[queue].call_read(Io.READ, size, nsid=nsid, cdw=words)
        expect(cqe)
        return data

    def write(self, lba: int, data: bytes, *, nsid: int = 1, queue: int = 1) -> None:
        """Write, whole, fetched by RDMA READ."""
        words = lba_words(lba, len(data) // self.block_size)
        expect(self.queues[queue].call_write(Io.WRITE, data, nsid=nsid, cdw=words))

    def shutdown(self) -> None:
        """Request a normal shutdown, then close."""
        expect(self.admin.call(nvme.property_set(CC, CC_ENABLE_CSI | 0x4000)))
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for queue in self.queues:
            with contextlib.suppress(OSError):
                queue.close()

    def __enter__(self) -> "NvmeHost":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
