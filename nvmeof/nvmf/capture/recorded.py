# SPDX-License-Identifier: BSD-3-Clause
"""The target of a capture: answers a live host's commands with the recorded responses.

Sans-IO.  Commands of the admin queue are matched by opcode and parameters, in the order of the
capture; I/O commands by opcode and range of blocks.  Reads return the blocks that the capture has
read or written, as the live host has changed them.  What the connection itself needs (Connect,
properties that start a controller, events, keep-alives) is answered as a controller does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nvmf.capture.command import Command
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.errors import CaptureError
from nvmf.spec.fabrics import ConnectCommand, ConnectData, PropertyCommand
from nvmf.spec.opcodes import AdminOpcode, Cns, FabricsType, FeatureId, IoOpcode, command_title
from nvmf.spec.properties import Property
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import CODE_MASK, DNR, Status, StatusError

_MDTS, _MDTS_MOST = 77, 4
"""Offset of MDTS in Identify Controller data, and its largest value here: 64 KiB."""
_CNTLID = slice(78, 80)
_IOCCSZ = slice(1792, 1796)
_FLBAS, _LBAF = 26, 128
_SQE = 64
_EN, _SHN = 1, 0xC000
_RDY, _SHST_DONE = 1, 0x8
_ONE_MOST = 1 << 16
"""Different commands without a recorded response that are told apart."""

Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int = 0
    """With DNR."""
    result: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Answers:
    """Recorded responses to equal commands: each is given once, the last one again."""

    found: list[Answer] = field(default_factory=list)
    given: int = 0

    def next(self) -> Answer:
        """Return the next one."""
        self.given += 1
        return self.found[min(self.given, len(self.found)) - 1]


@dataclass(slots=True)
class Session:
    """A queue of a live host."""

    subnqn: str = ""
    io: bool = False
    cntlid: int = 0
    cc: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of the commands that live hosts have sent."""

    connections: int = 0
    played: int = 0
    """Commands that were answered as recorded, or as a controller does."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Commands that are not in the capture, with their numbers."""
    changed: list[str] = field(default_factory=list)
    """Sentences about writes with other data than in the capture."""


class RecordedSubsystem:
    """The responses of one subsystem."""

    def __init__(self, subnqn: str) -> None:
        self.subnqn = subnqn
        self.cntlid: int | None = None
        self.in_capsule = 0
        """Bytes of data that a command of an I/O queue may carry."""
        self.properties: dict[int, Answers] = {}
        self._exact: dict[Key, Answers] = {}
        self._loose: dict[Key, Answers] = {}
        self._io: dict[Key, Answers] = {}
        self._written: dict[Key, bytes] = {}
        self._blocks: dict[tuple[int, int], bytes] = {}
        self._sizes: dict[int, int] = {}
        """Bytes of a block, by NSID."""

    def learn(self, one: Command) -> None:
        """Take a command of the capture."""
        if one.cqe is None or one.connect:
            return
        answer = Answer(one.cqe.status & (CODE_MASK | DNR), one.cqe.result)
        if one.fctype == FabricsType.PROPERTY_GET:
            offset = PropertyCommand.of(one.sqe).offset
            self.properties.setdefault(offset, Answers()).found.append(answer)
        elif one.fctype is None and one.io:
            self._learn_io(one, answer)
        elif one.fctype is None and not one.waits_for_event:
            data = b"" if one.direction != 2 else one.content() or b""
            self._learn_admin(one, Answer(answer.status, answer.result, data))

    def _learn_admin(self, one: Command, answer: Answer) -> None:
        self._exact.setdefault(_exact(one.sqe), Answers()).found.append(answer)
        self._loose.setdefault(_loose(one.sqe), Answers()).found.append(answer)
        if one.sqe.opcode != AdminOpcode.IDENTIFY or len(answer.data) < 4096:
            return
        match one.sqe.cdw10 & 0xFF:
            case Cns.CONTROLLER:
                capsule = int.from_bytes(answer.data[_IOCCSZ], "little") * 16
                self.in_capsule = max(0, min(capsule - _SQE, 65536))
            case Cns.NAMESPACE:
                at = _LBAF + 4 * (answer.data[_FLBAS] & 15) + 2
                if 9 <= answer.data[at] <= 16:
                    self._sizes[one.sqe.nsid] = 1 << answer.data[at]

    def _learn_io(self, one: Command, answer: Answer) -> None:
        self._io.setdefault(_exact(one.sqe), Answers()).found.append(answer)
        content = one.content() if one.size else None
        if content is None or answer.status & CODE_MASK or not _moves(one.sqe):
            return
        self._sizes.setdefault(one.sqe.nsid, len(content) // _count(one.sqe))
        if one.sqe.opcode == IoOpcode.WRITE:
            self._written.setdefault(_exact(one.sqe), content)
        self._put(one.sqe, content, new=False)

    def _put(self, sqe: Sqe, data: bytes, *, new: bool) -> None:
        size = self._sizes.get(sqe.nsid, 512)
        for at in range(len(data) // size):
            place, block = (sqe.nsid, _lba(sqe) + at), data[at * size : (at + 1) * size]
            if new:
                self._blocks[place] = block
            else:
                self._blocks.setdefault(place, block)

    # ---- answers ----

    def admin(self, sqe: Sqe) -> Answer | None:
        """Return the recorded response to a command of the admin queue; None if there is none."""
        found = self._exact.get(_exact(sqe)) or self._loose.get(_loose(sqe))
        return found.next() if found is not None else None

    def io(self, sqe: Sqe, data: bytes, tally: Tally) -> Answer | None:
        """Return the response to an I/O command; None if the capture has none."""
        recorded = self._io.get(_exact(sqe))
        answer = recorded.next() if recorded is not None else None
        if answer is not None and answer.status & CODE_MASK:
            return answer
        if sqe.opcode in (IoOpcode.READ, IoOpcode.COMPARE):
            present = [self._blocks.get((sqe.nsid, _lba(sqe) + n)) for n in range(_count(sqe))]
            if None in present:
                return None
            content = b"".join(one for one in present if one is not None)
            if sqe.opcode == IoOpcode.READ:
                return Answer(data=content)
            return Answer(0 if content == data else Status.COMPARE_FAILURE | DNR)
        if sqe.opcode == IoOpcode.WRITE:
            self._compare(sqe, data, tally)
            self._put(sqe, data, new=True)
        return answer

    def _compare(self, sqe: Sqe, data: bytes, tally: Tally) -> None:
        before = self._written.get(_exact(sqe))
        if before is None or before == data or len(tally.changed) >= _ONE_MOST:
            return
        first = next((n for n, (a, b) in enumerate(zip(before, data, strict=False)) if a != b), 0)
        tally.changed.append(
            f"Write of NSID {sqe.nsid}, LBA {_lba(sqe)}: other data than in the capture, from "
            f"byte {first}"
        )


class RecordedTarget:
    """All subsystems of a capture, for live hosts."""

    def __init__(self, dialogues: Iterable[Dialogue]) -> None:
        self.tally = Tally()
        self.subsystems: dict[str, RecordedSubsystem] = {}
        self._next_cntlid = 0
        every = list(dialogues)
        commands = sorted(
            ((one, each) for each in every for one in each.commands), key=lambda pair: pair[0].when
        )
        for command, dialogue in commands:
            if not dialogue.subnqn:
                continue
            known = self.subsystems.setdefault(dialogue.subnqn, RecordedSubsystem(dialogue.subnqn))
            if known.cntlid is None:
                known.cntlid = dialogue.cntlid
            known.learn(command)
        if not self.subsystems:
            raise CaptureError("it has no connection with its Connect: nothing can be answered")

    @property
    def in_capsule(self) -> int:
        """Bytes of data in a capsule of an I/O queue, which discovery subsystems do not have."""
        return max(one.in_capsule for one in self.subsystems.values())

    def handle(self, session: Session, sqe: Sqe, data: bytes) -> Answer | None:
        """Return the response to a command; None if it waits for an event."""
        known = self.subsystems.get(session.subnqn)
        if sqe.opcode == AdminOpcode.FABRICS:
            return self._fabrics(session, known, sqe, data)
        if known is None:
            return Answer(Status.COMMAND_SEQUENCE_ERROR | DNR)
        if not session.io:
            if sqe.opcode == AdminOpcode.ASYNC_EVENT_REQUEST:
                return None
            if sqe.opcode == AdminOpcode.KEEP_ALIVE:
                return self._played(Answer())
            answer = known.admin(sqe)
            if answer is not None:
                return self._played(_adapted(session, sqe, answer))
            self._unknown(sqe, io=False)
            if sqe.opcode == AdminOpcode.SET_FEATURES and (
                sqe.cdw10 & 0xFF == FeatureId.NUMBER_OF_QUEUES
            ):
                return Answer(result=sqe.cdw11)
            return Answer(Status.INVALID_FIELD | DNR)
        answer = known.io(sqe, data, self.tally)
        if answer is not None:
            return self._played(answer)
        self._unknown(sqe, io=True)
        if sqe.opcode in (IoOpcode.WRITE, IoOpcode.FLUSH):
            return Answer()
        reads = sqe.opcode in (IoOpcode.READ, IoOpcode.COMPARE, IoOpcode.VERIFY)
        status = Status.UNRECOVERED_READ_ERROR if reads else Status.INVALID_OPCODE
        return Answer(status | DNR)

    def _played(self, answer: Answer) -> Answer:
        self.tally.played += 1
        return answer

    def _unknown(self, sqe: Sqe, *, io: bool) -> None:
        name = command_title(sqe.opcode, io=io)
        if io and _moves(sqe):
            name += f" of NSID {sqe.nsid}, LBA {_lba(sqe)}, {_count(sqe)} blocks"
        elif not io:
            name += f", NSID {sqe.nsid}, CDW10 {sqe.cdw10:#x}"
        unknown = self.tally.unknown
        if name in unknown or len(unknown) < _ONE_MOST:
            unknown[name] = unknown.get(name, 0) + 1

    # ---- fabrics ----

    def _fabrics(
        self, session: Session, known: RecordedSubsystem | None, sqe: Sqe, data: bytes
    ) -> Answer:
        match sqe.fctype:
            case FabricsType.CONNECT:
                return self._connect(session, sqe, data)
            case FabricsType.PROPERTY_GET if known is not None:
                return self._property(session, known, PropertyCommand.of(sqe).offset)
            case FabricsType.PROPERTY_SET if known is not None:
                command = PropertyCommand.of(sqe)
                if command.offset == Property.CC:
                    session.cc = command.value
                return self._played(Answer())
            case FabricsType.DISCONNECT:
                return self._played(Answer())
        self._unknown(sqe, io=False)
        return Answer(Status.INVALID_OPCODE | DNR)

    def _connect(self, session: Session, sqe: Sqe, data: bytes) -> Answer:
        try:
            wanted = ConnectData.decode(data)
        except StatusError:
            return Answer(Status.CONNECT_INVALID_PARAMETERS | DNR)
        known = self.subsystems.get(wanted.subnqn)
        if known is None:
            return Answer(Status.CONNECT_INVALID_PARAMETERS | DNR)
        session.subnqn, session.io = wanted.subnqn, ConnectCommand.of(sqe).qid > 0
        if session.io:
            session.cntlid = wanted.cntlid
        else:
            session.cntlid = ((known.cntlid or 1) + self._next_cntlid) % 0xFFEF
            self._next_cntlid += 1
        self.tally.connections += 1
        return self._played(Answer(result=session.cntlid))

    def _property(self, session: Session, known: RecordedSubsystem, offset: int) -> Answer:
        if offset == Property.CC:
            return self._played(Answer(result=session.cc))
        if offset == Property.CSTS:
            ready = _RDY if session.cc & _EN else 0
            return self._played(Answer(result=ready | (_SHST_DONE if session.cc & _SHN else 0)))
        found = known.properties.get(offset)
        return self._played(found.next()) if found else Answer(Status.INVALID_FIELD | DNR)


def _adapted(session: Session, sqe: Sqe, answer: Answer) -> Answer:
    """Return Identify Controller data, with the fields that depend on the connection."""
    wanted = sqe.opcode == AdminOpcode.IDENTIFY and sqe.cdw10 & 0xFF == Cns.CONTROLLER
    if not wanted or len(answer.data) < 4096:
        return answer
    data = bytearray(answer.data)
    data[_CNTLID] = session.cntlid.to_bytes(2, "little")
    if not 0 < data[_MDTS] <= _MDTS_MOST:
        data[_MDTS] = _MDTS_MOST
    return Answer(answer.status, answer.result, bytes(data))


def _exact(sqe: Sqe) -> Key:
    words = sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15
    return sqe.opcode, sqe.nsid, *words


def _loose(sqe: Sqe) -> Key:
    """Return the key of a command of the admin queue: the structure, log page or feature."""
    offset = sqe.cdw12 if sqe.opcode == AdminOpcode.GET_LOG_PAGE else 0
    return sqe.opcode, sqe.nsid, sqe.cdw10 & 0xFF, offset


def _lba(sqe: Sqe) -> int:
    return sqe.cdw11 << 32 | sqe.cdw10


def _count(sqe: Sqe) -> int:
    return (sqe.cdw12 & 0xFFFF) + 1


def _moves(sqe: Sqe) -> bool:
    return sqe.opcode in (IoOpcode.READ, IoOpcode.WRITE, IoOpcode.COMPARE)
