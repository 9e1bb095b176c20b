# SPDX-License-Identifier: BSD-3-Clause
"""A connection of a capture: events of the transport become commands and violations.

The transport (``iwarp``, ``roce``) calls the methods in the order of the packets; all of them have
the time and the number of the packet as ``at``.  Nothing here fails, whatever the events are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nvmf.capture.command import Command
from nvmf.capture.fault import At, Fault
from nvmf.capture.network import Address
from nvmf.spec.cm import CmReject, CmReply, CmRequest, cm_status_name
from nvmf.spec.cqe import SIZE as CQE_SIZE
from nvmf.spec.cqe import Cqe
from nvmf.spec.fabrics import ConnectCommand, ConnectData, ConnectResult
from nvmf.spec.opcodes import AdminOpcode, IoOpcode
from nvmf.spec.sgl import SglType
from nvmf.spec.sqe import SIZE as SQE_SIZE
from nvmf.spec.sqe import Sqe

CONNECT_DATA = 1024
FAULTS_MOST = 1000
"""Faults of a connection that are kept; further ones are counted."""
LOSSES_MOST = 20
"""Sentences about missing packets of a connection that are kept."""
_ADMIN_ONLY = {0x06, 0x0C, 0x18}
"""Opcodes that show that a queue is an admin queue: Identify, Asynchronous Event, Keep Alive."""


@dataclass(slots=True)
class Dialogue:
    """A connection."""

    number: int
    """From 1, in the order of their first packets."""
    transport: str
    """iWARP or RoCEv2."""
    host: Address
    target: Address
    began: At
    keep: bool = False
    """Whether the data of commands is kept."""
    handshake: list[str] = field(default_factory=list)
    """The negotiated values, a line for each message."""
    request: bytes | None = None
    """Private data of the host's request: 32 bytes, or fewer if the host is wrong."""
    accepted: bool = False
    rejected: str = ""
    qid: int | None = None
    """None if neither the request nor the Connect is in the capture."""
    subnqn: str = ""
    hostnqn: str = ""
    cntlid: int | None = None
    commands: list[Command] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    more_faults: int = 0
    ended: str = ""
    gaps: int = 0
    """The number of places where packets are missing."""
    losses: int = 0
    """Sentences about missing packets."""
    waiting: bool = False
    """Whether packets are missing now that may still come."""
    packets: int = 0
    synthesised: bool = False
    """Whether the packets were made of the work of one end, and were not on the wire."""
    count: int = 0
    """Commands so far."""
    depth: int = 0
    """Entries of the submission queue; 0: not known."""
    open: dict[int, Command] = field(default_factory=dict)
    """Commands without a response, by CID."""
    _reads: list[tuple[Command | None, int, int]] = field(default_factory=list)
    """RDMA READs that are not answered completely: bytes missing, and where they belong in the
    data.
    """

    # ---- faults ----

    def violation(self, at: At, sentence: str, section: str) -> None:
        """Note a violation of a specification; after missing packets, a possible one."""
        if self.gaps:
            self._loss(at, f"perhaps due to missing packets: {sentence}")
        else:
            self._fault(Fault(at.when, at.packet, sentence, section))

    def remark(self, at: At, sentence: str) -> None:
        """Note a remark for the reader."""
        self._fault(Fault(at.when, at.packet, sentence))

    def _fault(self, fault: Fault) -> None:
        if len(self.faults) < FAULTS_MOST:
            self.faults.append(fault)
        else:
            self.more_faults += 1

    @property
    def whole(self) -> bool:
        """Whether the capture has everything from the beginning so far."""
        return self.request is not None and not self.gaps and not self.waiting

    def gap(self, at: At, sentence: str) -> None:
        """Note missing packets: later data may lack its beginning."""
        self.gaps += 1
        self._loss(at, sentence)
        self._reads.clear()

    def _loss(self, at: At, sentence: str) -> None:
        self.losses += 1
        if self.losses <= LOSSES_MOST:
            self._fault(Fault(at.when, at.packet, sentence, loss=True))
        else:
            self.more_faults += 1

    # ---- connection management ----

    def requested(self, at: At, private: bytes, words: str) -> None:
        """Handle the host's MPA request or CM REQ; private: without the transport's own part."""
        self.request = private
        self.handshake.append(f"request: {words}")
        section = "RDMA Transport 1.0, 3.1"
        if len(private) < CmRequest.SIZE:
            self.violation(
                at, f"the request has {len(private)} bytes of NVMe-oF private data, not 32", section
            )
            return
        found = CmRequest.decode(private[: CmRequest.SIZE])
        self.qid, self.depth = found.qid, found.hsqsize + 1
        self.handshake[-1] += (
            f"; NVMe-oF: QID {found.qid}, HRQSIZE {found.hrqsize}, HSQSIZE {found.hsqsize}"
        )
        if found.recfmt:
            self.violation(at, f"RECFMT of the request is {found.recfmt}, not 0", section)
        if not found.hrqsize:
            self.violation(at, "HRQSIZE of the request is 0: no response can be received", section)
        elif found.hrqsize < found.hsqsize:
            self.remark(
                at,
                f"HRQSIZE {found.hrqsize} is less than HSQSIZE {found.hsqsize}: a full queue of "
                "commands has more responses than the host can receive",
            )

    def replied(self, at: At, private: bytes, words: str) -> None:
        """Handle the target's acceptance."""
        self.accepted = True
        self.handshake.append(f"reply: {words}")
        if len(private) < 4:
            self.violation(
                at,
                f"the reply has {len(private)} bytes of NVMe-oF private data, not 32",
                "RDMA Transport 1.0, 3.1",
            )
            return
        found = CmReply.decode(private[: CmReply.SIZE].ljust(CmReply.SIZE, b"\0"))
        self.handshake[-1] += f"; NVMe-oF: CRQSIZE {found.crqsize}"

    def refused(self, at: At, private: bytes, words: str) -> None:
        """Handle the target's rejection."""
        name = ""
        if len(private) >= CmReject.SIZE:
            name = cm_status_name(CmReject.decode(private[: CmReject.SIZE]).sts)
        self.rejected = name or "no NVMe-oF status"
        self.handshake.append(f"reject: {words}; NVMe-oF: {self.rejected}")
        self.remark(at, f"the target rejects the connection: {self.rejected}")

    def closed(self, at: At, how: str) -> None:
        """Handle the end of the connection, or of a direction of it; only the first one counts."""
        if self.ended:
            return
        self.ended = how
        if self.gaps:
            return  # responses may be among the missing packets
        waiting = [one for one in self.open.values() if not one.waits_for_event]
        if waiting:
            names = ", ".join(sorted({one.name for one in waiting}))
            self.remark(at, f"{how} while commands had no response: {len(waiting)} ({names})")

    # ---- capsules ----

    def sent(self, at: At, host: bool, data: bytes, length: int, key: int | None) -> None:
        """Handle a whole Send message; key: the key that it invalidates.

        length may exceed the data, if that was not captured whole.
        """
        if host:
            self._command(at, data, length)
        else:
            self._response(at, data, length, key)

    def _command(self, at: At, data: bytes, length: int) -> None:
        if length < SQE_SIZE:
            self.violation(
                at, f"a command capsule has {length} bytes, and an SQE has 64", "Base 2.0, 3.3.2"
            )
            return
        if len(data) < SQE_SIZE:
            self.remark(at, "a command capsule was not captured whole, and is left out")
            return
        sqe = Sqe.decode(data)
        io = bool(self.qid) if self.qid is not None else sqe.opcode not in _ADMIN_ONLY
        command = Command(at.packet, at.when, sqe, io, data[SQE_SIZE:])
        if command.connect:
            command.io = False
        if sqe.psdt != 1:
            self.violation(
                at,
                f"PSDT of {command.name} (CID {sqe.cid:#06x}) is {sqe.psdt:02b}b: fabrics "
                "use SGLs, 01b",
                "Base 2.0, 3.3.3.1",
            )
        earlier = self.open.get(sqe.cid)
        if earlier is not None and not self.gaps:
            self.violation(
                at,
                f"the CID {sqe.cid:#06x} of {command.name} belongs to {earlier.name}, which has "
                "no response yet",
                "Base 2.0, 3.3.3.1",
            )
        first = self.whole and not self.count
        if first and not command.connect:
            self.violation(
                at,
                f"the first command is {command.name}: a queue begins with Connect",
                "Base 2.0, 3.3.2",
            )
        if command.connect:
            self._connect(at, command, again=bool(self.count))
        self.count += 1
        self.commands.append(command)
        self.open[sqe.cid] = command
        if self.depth and len(self.open) > self.depth and not self.gaps:
            self.violation(
                at,
                f"{len(self.open)} commands are outstanding in a queue of {self.depth} entries",
                "Base 2.0, 3.3.2",
            )

    def _connect(self, at: At, command: Command, *, again: bool) -> None:
        connect = ConnectCommand.of(command.sqe)
        if again:
            self.violation(at, "a second Connect on the same queue", "Base 2.0, 3.3.2")
            return
        if self.qid is not None and connect.qid != self.qid:
            self.violation(
                at,
                f"Connect has QID {connect.qid}, and the connection was requested for QID "
                f"{self.qid}",
                "RDMA Transport 1.0, 3.1",
            )
        elif self.depth and connect.sqsize + 1 != self.depth:
            self.violation(
                at,
                f"Connect has SQSIZE {connect.sqsize}, and the connection was requested with "
                f"HSQSIZE {self.depth - 1}",
                "RDMA Transport 1.0, 3.1",
            )
        self.qid, self.depth = connect.qid, connect.sqsize + 1
        sgl = command.sqe.sgl
        if sgl.type == SglType.IN_CAPSULE:
            self._connect_data(command.in_capsule[sgl.address : sgl.address + sgl.length])
        if command.size != CONNECT_DATA:
            self.violation(
                at, f"Connect has {command.size} bytes of data, not 1024", "Base 2.0, 6.3"
            )

    def _connect_data(self, data: bytes) -> None:
        if len(data) >= CONNECT_DATA:
            found = ConnectData.decode(data[:CONNECT_DATA])
            self.subnqn, self.hostnqn = found.subnqn, found.hostnqn

    def _response(self, at: At, data: bytes, length: int, key: int | None) -> None:
        if length != CQE_SIZE:
            self.violation(at, f"a response capsule has {length} bytes, not 16", "Base 2.0, 3.3.2")
        if len(data) < CQE_SIZE:
            return
        cqe = Cqe.decode(data)
        command = self.open.pop(cqe.cid, None)
        if command is None:
            sentence = f"a response has CID {cqe.cid:#06x}, which no outstanding command has"
            if self.whole:
                self.violation(at, sentence, "Base 2.0, 3.3.3.2")
            else:
                self._loss(at, f"{sentence} in this capture")
            return
        if key is not None and self.gaps and not command.invalidates(key):
            # the response is that of a later command with this CID, which is missing
            self._loss(at, f"the command of a response (CID {cqe.cid:#06x}) is missing")
            return
        command.cqe, command.done_when, command.done_packet = cqe, at.when, at.packet
        if key is not None and not command.invalidates(key):
            self.violation(
                at,
                f"the response to {command.name} (CID {cqe.cid:#06x}) invalidates the key "
                f"{key:#x}, which the command did not ask for",
                "RDMA Transport 1.0, 3.2",
            )
        if command.failed:
            named = f"{command.name} (CID {cqe.cid:#06x}, {command.where})"
            self.remark(at, f"{named} fails: {command.status}")
        elif command.connect:
            self.cntlid = ConnectResult.decode(cqe.dw0).cntlid
        elif not self.gaps:
            self._transferred(at, command)

    def _transferred(self, at: At, command: Command) -> None:
        """Check that a successful command has transferred all its data."""
        inside = sum(one.length for one in command.sgls if one.type == SglType.IN_CAPSULE)
        moved = command.written if command.direction == 2 else command.read + inside
        reads = command.io and command.sqe.opcode in (IoOpcode.READ, IoOpcode.WRITE)
        if (reads or (not command.io and command.sqe.opcode == AdminOpcode.IDENTIFY)) and (
            moved < command.size
        ):
            self.violation(
                at,
                f"{command.name} (CID {command.sqe.cid:#06x}, {command.where}) succeeds, but "
                f"{moved} of {command.size} bytes were transferred",
                "Base 2.0, 4.1.2",
            )

    # ---- data ----

    def _owner(
        self, at: At, what: str, key: int, address: int, length: int
    ) -> tuple[Command | None, int]:
        """Return the command whose memory the controller accesses, and the offset in its data."""
        for command in self.open.values():
            place = command.place(key, address, length)
            if place is not None:
                return command, place
        sentence = (
            f"the controller's {what} of {length} bytes at {address:#x} (key {key:#x}) is not "
            "within the memory of an outstanding command"
        )
        if self.whole:
            self.violation(at, sentence, "RDMA Transport 1.0, 3.2")
        return None, 0

    def read(self, at: At, key: int, address: int, length: int) -> None:
        """Handle a READ request of the controller."""
        command, place = self._owner(at, "RDMA READ", key, address, length)
        if command is not None:
            command.data_when = command.data_when or at.when
            if not command.direction & 1:
                self.violation(
                    at,
                    f"the controller reads the memory of {command.name}, which has no data for it",
                    "Base 2.0, 4.1.2",
                )
        if len(self._reads) < 1 << 16:
            self._reads.append((command, length, place))

    def read_data(self, at: At, data: bytes, length: int) -> None:
        """Handle data of the host's answer to the oldest READ, in pieces."""
        if not self._reads:
            if self.whole:
                self.violation(at, "the host answers a READ that was not requested", "RFC 5040 5.2")
            return
        command, missing, place = self._reads[0]
        if command is not None:
            command.read += min(length, missing)
            if self.keep or command.connect:
                command.pieces.append((place, data[:missing]))
            if command.connect and command.read == CONNECT_DATA:
                self._connect_data(command.content() or b"")
        if length < missing:
            self._reads[0] = (command, missing - length, place + length)
        else:
            self._reads.pop(0)

    def write(self, at: At, key: int, address: int, data: bytes, length: int) -> None:
        """Handle a piece of an RDMA WRITE of the controller."""
        if not length:
            return
        command, place = self._owner(at, "RDMA WRITE", key, address, length)
        if command is None:
            return
        command.data_when = command.data_when or at.when
        command.written += length
        if self.keep:
            command.pieces.append((place, data))
        if not command.direction & 2:
            self.violation(
                at,
                f"the controller writes to the memory of {command.name}, which reads no data",
                "Base 2.0, 4.1.2",
            )
