# SPDX-License-Identifier: BSD-3-Clause
"""A command of a capture: its capsule, its data and its response, with names for a reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from nvmf.spec.cqe import Cqe
from nvmf.spec.fabrics import ConnectCommand, PropertyCommand
from nvmf.spec.opcodes import (
    AdminOpcode,
    Cns,
    FabricsType,
    FeatureId,
    IoOpcode,
    LogId,
    command_title,
)
from nvmf.spec.properties import Property
from nvmf.spec.sgl import Sgl, SglType
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import CODE_MASK, status_name

LISTS_MOST = 128
"""Descriptors of a list in a capsule that are considered."""
_BLOCKS = {
    IoOpcode.WRITE, IoOpcode.READ, IoOpcode.COMPARE, IoOpcode.WRITE_ZEROES,
    IoOpcode.WRITE_UNCORRECTABLE, IoOpcode.VERIFY,
}  # fmt: skip


@dataclass(slots=True)
class Command:
    """A command with its data and its response."""

    packet: int
    """Number of the packet with its capsule."""
    when: int
    """Nanoseconds since the epoch."""
    sqe: Sqe
    io: bool
    """Whether it is on an I/O queue."""
    in_capsule: bytes
    """Data after the SQE, as far as it was captured."""
    read: int = 0
    """Bytes that the controller read from the host by RDMA READ."""
    written: int = 0
    """Bytes that the controller wrote to the host by RDMA WRITE."""
    data_when: int | None = None
    """When the first RDMA READ or WRITE began."""
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    """Data of RDMA READ and WRITE with their offsets: of a Connect, and if data is kept."""
    cqe: Cqe | None = None
    done_when: int | None = None
    done_packet: int | None = None

    @property
    def fctype(self) -> int | None:
        """Type of a fabrics command, else None."""
        return self.sqe.fctype if self.sqe.opcode == AdminOpcode.FABRICS else None

    @property
    def connect(self) -> bool:
        """Whether it is a Connect."""
        return self.fctype == FabricsType.CONNECT

    @property
    def direction(self) -> int:
        """Data transfer: 0 none, 1 host to controller, 2 controller to host, 3 both."""
        fctype = self.fctype
        return (self.sqe.opcode if fctype is None else fctype) & 3

    @property
    def sgls(self) -> list[Sgl]:
        """The descriptors: the only one, or those of a list in the capsule."""
        first = self.sqe.sgl
        if first.type >> 4 != 3:
            return [first]
        data = self.in_capsule[first.address : first.address + min(first.length, LISTS_MOST * 16)]
        return [Sgl.decode(data[at : at + 16]) for at in range(0, len(data) - 15, 16)]

    @property
    def size(self) -> int:
        """Bytes of data that the descriptors describe."""
        return sum(one.length for one in self.sgls)

    def place(self, key: int, address: int, length: int) -> int | None:
        """Return the offset in the data of a range of the host's memory; None if it is not within
        a descriptor.
        """
        before = 0
        for one in self.sgls:
            ahead = address - one.address
            if one.keyed and one.key == key and ahead >= 0 and ahead + length <= one.length:
                return before + ahead
            before += one.length
        return None

    def content(self) -> bytes | None:
        """Return the data that was transferred; None if the capture does not have all of it."""
        first = self.sqe.sgl
        if first.type == SglType.IN_CAPSULE:
            data = self.in_capsule[first.address : first.address + first.length]
            return data if len(data) == first.length else None
        content, at = bytearray(), 0
        for offset, piece in sorted(self.pieces, key=lambda pair: pair[0]):
            if offset > at:
                return None
            content[offset : offset + len(piece)] = piece
            at = len(content)
        return bytes(content) if at == self.size else None

    def invalidates(self, key: int) -> bool:
        """Whether the command asks for the invalidation of a key."""
        return any(one.type == SglType.KEYED_INVALIDATE and one.key == key for one in self.sgls)

    @property
    def waits_for_event(self) -> bool:
        """Whether having no response is normal."""
        return not self.io and self.sqe.opcode == AdminOpcode.ASYNC_EVENT_REQUEST

    @property
    def where(self) -> str:
        """The parameters, for sentences."""
        return self.detail or "no parameters"

    @property
    def latency(self) -> int | None:
        """Nanoseconds from command to response."""
        return None if self.done_when is None else self.done_when - self.when

    @property
    def name(self) -> str:
        """The specification's name of the command."""
        if (fctype := self.fctype) is not None:
            return _title(FabricsType, fctype, "fabrics command")
        return command_title(self.sqe.opcode, io=self.io)

    @property
    def detail(self) -> str:
        """The parameters that a reader needs; "" if there are none."""
        sqe = self.sqe
        match self.fctype:
            case FabricsType.CONNECT:
                connect = ConnectCommand.of(sqe)
                return f"QID {connect.qid}, SQSIZE {connect.sqsize}, KATO {connect.kato} ms"
            case FabricsType.PROPERTY_GET | FabricsType.PROPERTY_SET:
                command = PropertyCommand.of(sqe)
                name = _name(Property, command.offset)
                get = self.fctype == FabricsType.PROPERTY_GET
                return name if get else f"{name} = {command.value:#x}"
            case None:
                return self._blocks() if self.io else self._admin()
        return ""

    def _blocks(self) -> str:
        sqe = self.sqe
        lba = sqe.cdw11 << 32 | sqe.cdw10
        if sqe.opcode == IoOpcode.COPY:
            count = (sqe.cdw12 & 0xFF) + 1
            return f"NSID {sqe.nsid}, to LBA {lba}, {count} range{'s' if count > 1 else ''}"
        if sqe.opcode in _BLOCKS:
            count = (sqe.cdw12 & 0xFFFF) + 1
            return f"NSID {sqe.nsid}, LBA {lba}, {count} block{'s' if count > 1 else ''}"
        return f"NSID {sqe.nsid}"

    def _admin(self) -> str:
        low = self.sqe.cdw10 & 0xFF
        match self.sqe.opcode:
            case AdminOpcode.IDENTIFY:
                text = f"CNS {low:02x}h {_title(Cns, low, '')}".rstrip()
                return f"{text}, NSID {self.sqe.nsid}" if self.sqe.nsid else text
            case AdminOpcode.GET_LOG_PAGE:
                return f"LID {low:02x}h {_title(LogId, low, '')}".rstrip()
            case AdminOpcode.GET_FEATURES | AdminOpcode.SET_FEATURES:
                text = f"FID {low:02x}h {_title(FeatureId, low, '')}".rstrip()
                set_ = self.sqe.opcode == AdminOpcode.SET_FEATURES
                return f"{text} = {self.sqe.cdw11:#x}" if set_ else text
        return ""

    @property
    def status(self) -> str | None:
        """The name of the response's status; None without a response."""
        return None if self.cqe is None else status_name(self.cqe.status, io=self.io)

    @property
    def failed(self) -> bool:
        """Whether the response has an error."""
        return self.cqe is not None and bool(self.cqe.status & CODE_MASK)


def _title(kind: type[IntEnum], value: int, unknown: str) -> str:
    try:
        return kind(value).name.replace("_", " ").title()
    except ValueError:
        return f"{unknown} {value:02x}h" if unknown else ""


def _name(kind: type[IntEnum], value: int) -> str:
    try:
        return kind(value).name
    except ValueError:
        return f"offset {value:#x}"
