# SPDX-License-Identifier: BSD-3-Clause
"""NvmeResponder: a minimal target in threads, for tests of hosts; strict in receiving."""

import contextlib
import socket
import struct
import threading
import traceback
from collections.abc import Callable
from types import TracebackType

from support.served import SUBNQN
from wire import nvme
from wire.errors import ConnectionEnded, WireViolation
from wire.memory import Region
from wire.mpa import StartFrame
from wire.nvme import Admin, Fctype, Io, Status
from wire.peer import IwarpPeer, Placed, ReadAsked, ReadDone, Received
from wire.rdmap import Op, ReadRequest, Terminate


class Connection:
    """One accepted connection and its commands."""

    def __init__(self, responder: "NvmeResponder", peer: IwarpPeer) -> None:
        self.responder = responder
        self.peer = peer
        self.qid = 0
        self.depth = 0
        self.sqhd = 0
        self.connected = False
        self.capsules: list[bytes] = []
        """Every command capsule so far."""
        self.later: list[bytes] = []
        """Capsules that arrived while the data of another command was awaited."""
        self.ended: Terminate | None = None

    def fetch(self, capsule: bytes) -> bytes:
        """The data of a command from its SGL: in the capsule, or by RDMA READ."""
        kind = capsule[39]
        if kind == 0x01:
            offset, length = struct.unpack_from("<QI", capsule, 24)
            data = capsule[64 + offset : 64 + offset + length]
            if len(data) != length:
                raise WireViolation(f"the capsule lacks data: {nvme.describe_sqe(capsule)}")
            return data
        address, length, key = self.keyed(capsule)
        sink = Region(0x5151_0000 | self.sqhd, 0x1000, bytearray(length))
        self.peer.read_request(ReadRequest(sink.stag, sink.base, length, key, address))
        while True:
            event = self.peer.event()
            if isinstance(event, ReadDone):
                return event.data
            if isinstance(event, Received):
                self.capsules.append(event.payload)
                self.later.append(event.payload)
            elif isinstance(event, Terminate):
                raise WireViolation(f"{event} in answer to an RDMA READ")

    def keyed(self, capsule: bytes) -> tuple[int, int, int]:
        """Address, length and key of a keyed SGL."""
        if capsule[39] not in (0x40, 0x4F):
            raise WireViolation(f"SGL kind {capsule[39]:#04x}: {nvme.describe_sqe(capsule)}")
        address, low, key = struct.unpack_from("<Q3sI", capsule, 24)
        return address, int.from_bytes(low, "little"), key

    def give(self, capsule: bytes, data: bytes) -> None:
        """RDMA WRITE data to the command's buffer."""
        address, length, key = self.keyed(capsule)
        if len(data) > length:
            raise WireViolation(f"{len(data)} bytes do not fit: {nvme.describe_sqe(capsule)}")
        self.peer.write(key, address, data)

    def complete(self, capsule: bytes, status: int = 0, dw0: int = 0, dw1: int = 0) -> None:
        """Send the response capsule, with Invalidate if the descriptor requests it."""
        self.sqhd = (self.sqhd + 1) % max(1, self.depth)
        cid = int.from_bytes(capsule[2:4], "little")
        cqe = struct.pack("<IIHHHH", dw0, dw1, self.sqhd, self.qid, cid, status << 1)
        if capsule[39] == 0x4F and not status:
            self.peer.send(cqe, op=Op.SEND_INVALIDATE, invalidate=self.keyed(capsule)[2])
        else:
            self.peer.send(cqe)


def identify(capsule: bytes) -> bytes:
    """Just enough of Identify for a host: RDMA Transport and Base 5.17."""
    cns, data = capsule[40], bytearray(4096)
    if cns == 1:
        data[4:72] = b"S".ljust(20) + b"independent".ljust(40) + b"1".ljust(8)
        data[77] = 5
        struct.pack_into("<H", data, 78, 1)
        struct.pack_into("<I", data, 80, 0x10300)
        data[111] = 1
        struct.pack_into("<H", data, 320, 10)
        data[512:514] = b"\x66\x44"
        struct.pack_into("<HI", data, 514, 128, 1)
        struct.pack_into("<I", data, 536, 0x100005)
        data[768 : 768 + len(SUBNQN)] = SUBNQN.encode()
        struct.pack_into("<II", data, 1792, (64 + 4096) // 16, 1)
        data[1803] = 1
    elif cns == 0:
        struct.pack_into("<QQQ", data, 0, 2048, 2048, 2048)
        data[130] = 9
    elif cns == 2:
        data[0] = 1 if int.from_bytes(capsule[4:8], "little") < 1 else 0
    elif cns == 3:
        data[:4] = b"\x03\x10\0\0"
        data[4:20] = b"independent uuid"
    return bytes(data)


Hook = Callable[[Connection, bytes], bool]
"""A function of a capsule: True if it has handled it."""


class NvmeResponder:
    """Listens on 127.0.0.1; one subsystem with one namespace in memory."""

    def __init__(self, subnqn: str, identify: Callable[[bytes], bytes], *, blocks: int = 2048,
                 cap: int = 0x0000_0820_0F00_007F) -> None:  # fmt: skip
        self.subnqn = subnqn
        self.identify = identify
        """The 4096 bytes that answer an Identify command."""
        self.properties: dict[int, int] = {0x00: cap, 0x08: 0x10300, 0x14: 0, 0x1C: 0}
        self.features: dict[int, int] = {}
        self.store = bytearray(blocks * 512)
        self.cntlid = 1
        self.hook: Hook = lambda connection, capsule: False
        self.refuse: Callable[[StartFrame], bytes | None] = lambda start: None
        """Private data to reject a connection with."""
        self.accept: Callable[[int], bytes] = nvme.cm_accept
        """Given the depth of a queue: private data to accept its connection with."""
        self.connections: list[Connection] = []
        self.errors: list[BaseException] = []
        """Errors of the host."""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    @property
    def port(self) -> int:
        """The service port."""
        return int(self.socket.getsockname()[1])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer = IwarpPeer(self.socket.accept()[0])
                thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def _serve(self, peer: IwarpPeer) -> None:
        connection = Connection(self, peer)
        try:
            self._run(connection)
        except (ConnectionEnded, OSError):
            pass
        except BaseException as error:
            traceback.print_exc()  # a test of bad targets ignores it; others may fail for it
            self.errors.append(error)
        finally:
            peer.close()

    def _run(self, connection: Connection) -> None:
        peer = connection.peer
        start = peer.receive_start()
        if start.reply or start.bits & 0x2000:
            raise WireViolation(f"an initiator sends MPA bits {start.bits:#06x}")
        refusal = self.refuse(start)
        if refusal is not None:
            peer.reply(private_data=refusal, reject=True)
            return
        data = start.application_data
        if len(data) < 32:
            raise WireViolation(f"{len(data)} bytes of CM private data")
        recfmt, connection.qid, hrqsize, hsqsize, cntlid = struct.unpack_from("<5H", data)
        if recfmt or any(data[10:]) or hrqsize < hsqsize + (connection.qid > 0):
            raise WireViolation(f"CM private data {data.hex()}")
        if connection.qid and cntlid not in (0, self.cntlid):
            raise WireViolation(f"cntlid {cntlid} in CM private data, not {self.cntlid}")
        connection.depth = hsqsize + 1
        self.connections.append(connection)
        peer.reply(private_data=self.accept(connection.depth))
        while True:
            event = peer.event(3600)
            if isinstance(event, Received):
                self._capsule(connection, event)
            elif isinstance(event, Terminate):
                connection.ended = event
            elif isinstance(event, ReadAsked) or (isinstance(event, Placed) and event.size):
                # A WRITE of no bytes is a nudge of the embedded device, whose peer was slow.
                raise WireViolation(f"a host may not send {event}")
            while connection.later:
                self.command(connection, connection.later.pop(0))

    def _capsule(self, connection: Connection, event: Received) -> None:
        capsule = event.payload
        connection.capsules.append(capsule)
        if len(capsule) < 64 or event.op not in (Op.SEND, Op.SEND_SE):
            raise WireViolation(f"a capsule of {len(capsule)} bytes by {event.op}")
        if capsule[1] & 0xC0 != 0x40:
            raise WireViolation(f"PSDT is not 01b: {nvme.describe_sqe(capsule)}")
        self.command(connection, capsule)

    def command(self, connection: Connection, capsule: bytes) -> None:
        """Answer one command."""
        if self.hook(connection, capsule):
            return
        if capsule[0] == nvme.FABRICS:
            self._fabrics(connection, capsule)
        elif not connection.connected:
            raise WireViolation(f"before Connect: {nvme.describe_sqe(capsule)}")
        elif connection.qid:
            self._io(connection, capsule)
        else:
            self._admin(connection, capsule)

    def _fabrics(self, connection: Connection, capsule: bytes) -> None:
        if capsule[4] == Fctype.CONNECT:
            self._connect(connection, capsule)
        elif capsule[4] == Fctype.PROPERTY_GET:
            value = self.properties.get(int.from_bytes(capsule[44:48], "little"), 0)
            connection.complete(capsule, 0, value & 0xFFFFFFFF, value >> 32)
        elif capsule[4] == Fctype.PROPERTY_SET:
            offset, value = struct.unpack_from("<IQ", capsule, 44)
            self.properties[offset] = value
            if offset == 0x14:
                self.properties[0x1C] = value & 1 | (8 if value & 0xC000 else 0)
            connection.complete(capsule)
        else:
            connection.complete(capsule, nvme.DNR | Status.INVALID_OPCODE)

    def _connect(self, connection: Connection, capsule: bytes) -> None:
        recfmt, qid, sqsize = struct.unpack_from("<HHH", capsule, 40)
        data = connection.fetch(capsule)
        cntlid = int.from_bytes(data[16:18], "little")
        if len(data) != 1024 or recfmt or any(data[18:256]) or any(data[768:]):
            raise WireViolation(f"Connect data: {data.hex()}")
        if qid != connection.qid or sqsize != connection.depth - 1:
            raise WireViolation(f"Connect qid {qid} sqsize {sqsize}: not those of the REQ")
        if cntlid != (self.cntlid if qid else 0xFFFF):
            raise WireViolation(f"Connect cntlid {cntlid:#x} on queue {qid}")
        connection.connected = True
        connection.complete(capsule, 0, self.cntlid)

    def _admin(self, connection: Connection, capsule: bytes) -> None:
        fid = int.from_bytes(capsule[40:44], "little") & 0xFF
        value = int.from_bytes(capsule[44:48], "little")
        if capsule[0] == Admin.IDENTIFY:
            connection.give(capsule, self.identify(capsule))
            connection.complete(capsule)
        elif capsule[0] == Admin.SET_FEATURES:
            self.features[fid] = value
            connection.complete(capsule, 0, value if fid == 7 else 0)
        elif capsule[0] == Admin.GET_FEATURES:
            connection.complete(capsule, 0, self.features.get(fid, 0))
        elif capsule[0] == Admin.GET_LOG_PAGE:
            connection.give(capsule, bytes(connection.keyed(capsule)[1]))
            connection.complete(capsule)
        elif capsule[0] == Admin.KEEP_ALIVE:
            connection.complete(capsule)
        elif capsule[0] != Admin.ASYNC_EVENT:
            connection.complete(capsule, nvme.DNR | Status.INVALID_OPCODE)

    def _io(self, connection: Connection, capsule: bytes) -> None:
        lba, blocks = struct.unpack_from("<QH", capsule, 40)
        start, end = lba * 512, (lba + blocks + 1) * 512
        if capsule[0] == Io.READ:
            connection.give(capsule, bytes(self.store[start:end]))
        elif capsule[0] == Io.WRITE:
            data = connection.fetch(capsule)
            if len(data) != end - start:
                raise WireViolation(f"{len(data)} bytes: {nvme.describe_sqe(capsule)}")
            self.store[start:end] = data
        elif capsule[0] == Io.WRITE_ZEROES:
            self.store[start:end] = bytes(end - start)
        elif capsule[0] == Io.DSM:
            connection.fetch(capsule)
        elif capsule[0] != Io.FLUSH:
            connection.complete(capsule, nvme.DNR | Status.INVALID_OPCODE)
            return
        connection.complete(capsule)

    def close(self) -> None:
        """Stop listening, cut every connection, and raise the host's errors."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.peer.sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self.threads):
            thread.join(5)
        if self.errors:
            raise self.errors[0]

    def __enter__(self) -> "NvmeResponder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            with contextlib.suppress(BaseException):
                self.close()
