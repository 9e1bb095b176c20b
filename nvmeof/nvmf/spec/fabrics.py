# SPDX-License-Identifier: BSD-3-Clause
"""Fabrics commands and their data (Base 2.0, 6 and 5.16.1.23)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Annotated, Self

from nvmf.spec.layout import Register, Structure, ascii_, bits, raw, u8, u16, u64, utf8
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DecodeError, Status, StatusError

DYNAMIC_CNTLID = 0xFFFF
"""Connect for an admin queue: requests any controller."""
STATIC_CNTLID_ANY = 0xFFFE
MAX_CNTLID = 0xFFEF
"""The highest controller identifier that may be assigned."""

IATTR_SQE = 0
"""Connect Invalid Parameters: IPO counts from the start of the SQE."""
IATTR_DATA = 1 << 16
"""Connect Invalid Parameters: IPO counts from the start of the Connect data."""


class ConnectOffset(IntEnum):
    """Offsets of Connect SQE fields, as reported by Connect Invalid Parameters."""

    RECFMT = 40
    QID = 42
    SQSIZE = 44
    CATTR = 46
    KATO = 48


@dataclass(frozen=True, slots=True)
class ConnectDw10(Register):
    """Connect, dword 10."""

    recfmt: Annotated[int, bits(0, 15)] = 0
    qid: Annotated[int, bits(16, 31)] = 0


@dataclass(frozen=True, slots=True)
class ConnectDw11(Register):
    """Connect, dword 11."""

    sqsize: Annotated[int, bits(0, 15)] = 0
    """0's based."""
    priority: Annotated[int, bits(16, 17)] = 0
    sq_flow_control_disabled: Annotated[int, bits(18)] = 0
    io_queue_deletion: Annotated[int, bits(19)] = 0
    """The host can delete individual I/O queues with Disconnect."""


@dataclass(frozen=True, slots=True)
class ConnectCommand:
    """Connect (figure 383)."""

    recfmt: int
    qid: int
    sqsize: int
    """Entries, 0's based."""
    sq_flow_control_disabled: bool
    io_queue_deletion: bool
    kato: int
    """Keep Alive Timeout, ms; 0: none."""

    @classmethod
    def of(cls, sqe: Sqe) -> Self:
        """Decode a command's dwords 10 to 12."""
        dw10, dw11 = ConnectDw10.decode(sqe.cdw10), ConnectDw11.decode(sqe.cdw11)
        return cls(
            dw10.recfmt,
            dw10.qid,
            dw11.sqsize,
            bool(dw11.sq_flow_control_disabled),
            bool(dw11.io_queue_deletion),
            sqe.cdw12,
        )


@dataclass(frozen=True, slots=True)
class ConnectData(Structure):
    """Connect data (figure 384)."""

    SIZE = 1024
    hostid: Annotated[bytes, raw(0, 16)] = bytes(16)
    cntlid: Annotated[int, u16(16)] = DYNAMIC_CNTLID
    subnqn: Annotated[str, utf8(256, 256)] = ""
    hostnqn: Annotated[str, utf8(512, 256)] = ""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Decode, and check that both NQNs are NUL-terminated printable UTF-8.

        SUBNQN must not be empty; HOSTNQN may be, since SPDK sends it so: the subsystem decides.
        Raise StatusError (Connect Invalid Parameters, naming the field) if a check fails.
        """
        decoded = cls.decode(data)
        for name in ("subnqn", "hostnqn"):
            offset = cls.offset_of(name)
            field, end, _ = bytes(data[offset : offset + 256]).partition(b"\0")
            try:
                good = bool(end) and field.decode().isprintable() and len(field) < 224
            except UnicodeDecodeError:
                good = False
            if not good or (name == "subnqn" and not field):
                raise StatusError(
                    Status.CONNECT_INVALID_PARAMETERS,
                    f"{name.upper()} is not an NQN",
                    dw0=IATTR_DATA | offset,
                )
        return decoded


@dataclass(frozen=True, slots=True)
class ConnectResult(Register):
    """Dword 0 of a successful Connect (figure 385)."""

    cntlid: Annotated[int, bits(0, 15)] = 0
    atr: Annotated[int, bits(17)] = 0
    """Authentication and Security Requirements: in-band authentication is required."""
    ascr: Annotated[int, bits(18)] = 0
    """A secure channel is required."""


@dataclass(frozen=True, slots=True)
class ConnectInvalid(Register):
    """Dword 0 of Connect Invalid Parameters (figure 386)."""

    ipo: Annotated[int, bits(0, 15)] = 0
    """Invalid Parameter Offset."""
    iattr: Annotated[int, bits(16)] = 0
    """1: the offset is in the Connect data; 0: in the SQE."""

    def __str__(self) -> str:
        where = "Connect data" if self.iattr else "SQE"
        name = _INVALID_NAMES.get((self.iattr, self.ipo))
        return f"{name} ({where} byte {self.ipo})" if name else f"{where} byte {self.ipo}"


_INVALID_NAMES = {
    (0, int(ConnectOffset.RECFMT)): "RECFMT",
    (0, int(ConnectOffset.QID)): "QID",
    (0, int(ConnectOffset.SQSIZE)): "SQSIZE",
    (0, int(ConnectOffset.CATTR)): "CATTR",
    (0, int(ConnectOffset.KATO)): "KATO",
    (1, 0): "HOSTID",
    (1, 16): "CNTLID",
    (1, 256): "SUBNQN",
    (1, 512): "HOSTNQN",
}


@dataclass(frozen=True, slots=True)
class PropertyCommand:
    """Property Get or Property Set (figures 389 and 391)."""

    size: int
    """Bytes: 4 or 8; 0 if the command specifies a reserved size."""
    offset: int
    value: int
    """Property Set only."""

    @classmethod
    def of(cls, sqe: Sqe) -> Self:
        """Decode a command's dwords 10 to 13."""
        size = {0: 4, 1: 8}.get(sqe.cdw10 & 7, 0)
        return cls(size, sqe.cdw11, sqe.cdw13 << 32 | sqe.cdw12)


class TransportType(IntEnum):
    """TRTYPE of a discovery log entry."""

    RDMA = 1
    FC = 2
    TCP = 3
    LOOP = 254


class AddressFamily(IntEnum):
    """ADRFAM of a discovery log entry."""

    PCI = 0
    IPV4 = 1
    IPV6 = 2
    IB = 3
    FC = 4


class SubsystemType(IntEnum):
    """SUBTYPE of a discovery log entry."""

    REFERRAL = 1
    NVME = 2
    CURRENT_DISCOVERY = 3


class EntryFlags(IntFlag):
    """EFLAGS of a discovery log entry."""

    DUPLICATE = 1 << 0
    """DUPRETINFO: all ports with this flag return the same log."""
    PERSISTENT = 1 << 1
    """EPCSD: connections to this discovery controller may be persistent."""
    NO_CDC = 1 << 2
    """NCC: no connection to a centralized discovery controller."""


class LogOptions(IntFlag):
    """Bits of the discovery log: the log specific parameter of Get Log Page (requested), LIDSP
    (supported) and DLPF (used in the returned log)."""

    EXTENDED = 1 << 0
    """EXTDLPE: extended entries."""
    PORT_LOCAL = 1 << 1
    """PLEO: only entries for the port that received the command."""
    ALL_SUBSYSTEMS = 1 << 2
    """ALLSUBE: all entries, whichever host asks."""


class RdmaProvider(IntEnum):
    """RDMA_PRTYPE of a discovery log entry."""

    NONE = 1
    INFINIBAND = 2
    ROCE = 3
    ROCEV2 = 4
    IWARP = 5


TREQ_NOT_SPECIFIED = 0
TREQ_SECURE_CHANNEL_REQUIRED = 1
TREQ_SECURE_CHANNEL_NOT_REQUIRED = 2
TREQ_SQ_FLOW_CONTROL_OPTIONAL = 4
"""Bit 2: SQ flow control may be disabled."""
RDMA_QPTYPE_CONNECTED = 1
RDMA_CMS_RDMA_CM = 1


@dataclass(frozen=True, slots=True)
class DiscoveryHeader(Structure):
    """Discovery log page header (figure 263)."""

    SIZE = 1024
    genctr: Annotated[int, u64(0)] = 0
    """Changes whenever the page does."""
    numrec: Annotated[int, u64(8)] = 0
    recfmt: Annotated[int, u16(16)] = 0
    dlpf: Annotated[int, u8(18)] = 0
    """LogOptions."""


@dataclass(frozen=True, slots=True)
class DiscoveryEntry(Structure):
    """Discovery log page entry, with the RDMA transport specific subtype (figure 264)."""

    SIZE = 1024
    trtype: Annotated[int, u8(0)] = TransportType.RDMA
    adrfam: Annotated[int, u8(1)] = AddressFamily.IPV4
    subtype: Annotated[int, u8(2)] = SubsystemType.NVME
    treq: Annotated[int, u8(3)] = 0
    portid: Annotated[int, u16(4)] = 0
    cntlid: Annotated[int, u16(6)] = DYNAMIC_CNTLID
    asqsz: Annotated[int, u16(8)] = 32
    """Maximum admin queue entries."""
    eflags: Annotated[int, u16(10)] = 0
    trsvcid: Annotated[str, ascii_(32, 32)] = ""
    subnqn: Annotated[str, utf8(256, 256)] = ""
    traddr: Annotated[str, ascii_(512, 256)] = ""
    rdma_qptype: Annotated[int, u8(768)] = RDMA_QPTYPE_CONNECTED
    rdma_prtype: Annotated[int, u8(769)] = RdmaProvider.NONE
    rdma_cms: Annotated[int, u8(770)] = RDMA_CMS_RDMA_CM
    rdma_pkey: Annotated[int, u16(776)] = 0

    def __repr__(self) -> str:
        def name(kind: type[IntEnum], value: int) -> str:
            try:
                return kind(value).name.lower()
            except ValueError:
                return str(value)

        where = f"{name(TransportType, self.trtype)} {self.traddr!r} port {self.trsvcid!r}"
        subtype = name(SubsystemType, self.subtype)
        return f"<DiscoveryEntry {subtype} {self.subnqn!r} at {where}, portid {self.portid}>"


def encode_discovery_log(genctr: int, entries: list[DiscoveryEntry]) -> bytes:
    """Encode the whole discovery log page."""
    header = DiscoveryHeader(genctr, len(entries))
    return header.encode() + b"".join(entry.encode() for entry in entries)


def decode_discovery_log(data: bytes) -> tuple[DiscoveryHeader, list[DiscoveryEntry]]:
    """Return header and entries of a discovery log page; raise DecodeError if it is truncated."""
    header = DiscoveryHeader.decode(data)
    if header.recfmt != 0:
        raise DecodeError(f"discovery log of record format {header.recfmt}, not 0")
    if len(data) - DiscoveryHeader.SIZE < header.numrec * DiscoveryEntry.SIZE:
        raise DecodeError(f"discovery log of {len(data)} bytes announces {header.numrec} entries")
    return header, [
        DiscoveryEntry.decode(memoryview(data)[1024 * (i + 1) :]) for i in range(header.numrec)
    ]
