# SPDX-License-Identifier: BSD-3-Clause
"""Hand-made NVMe-oF capsules: Base Specification 2.0, RDMA Transport Specification 1.0."""

import struct
from dataclasses import dataclass
from enum import IntEnum

PSDT_SGL = 0x40
SQE_SIZE = 64
CQE_SIZE = 16
FABRICS = 0x7F
DNR = 0x4000


class Admin(IntEnum):
    """Admin opcodes."""

    DELETE_SQ = 0x00
    GET_LOG_PAGE = 0x02
    IDENTIFY = 0x06
    ABORT = 0x08
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT = 0x0C
    KEEP_ALIVE = 0x18


class Io(IntEnum):
    """NVM command set opcodes."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    WRITE_UNCORRECTABLE = 0x04
    COMPARE = 0x05
    WRITE_ZEROES = 0x08
    DSM = 0x09
    VERIFY = 0x0C
    RESERVATION_REGISTER = 0x0D
    COPY = 0x19


class Fctype(IntEnum):
    """Fabrics command types."""

    PROPERTY_SET = 0x00
    CONNECT = 0x01
    PROPERTY_GET = 0x04
    AUTH_SEND = 0x05
    AUTH_RECEIVE = 0x06
    DISCONNECT = 0x08


class Reject(IntEnum):
    """Status of an NVMe-oF RDMA reject."""

    LENGTH = 1
    RECFMT = 2
    QID = 3
    HSQSIZE = 4
    HRQSIZE = 5
    RESOURCES = 6
    IRD = 7
    ORD = 8


class Status(IntEnum):
    """Status codes, SCT << 8 | SC."""

    SUCCESS = 0x000
    INVALID_OPCODE = 0x001
    INVALID_FIELD = 0x002
    COMMAND_ID_CONFLICT = 0x003
    DATA_TRANSFER_ERROR = 0x004
    INTERNAL_ERROR = 0x006
    ABORTED_BY_REQUEST = 0x007
    ABORTED_MISSING_FUSED = 0x00A
    INVALID_NAMESPACE = 0x00B
    COMMAND_SEQUENCE_ERROR = 0x00C
    INVALID_SGL_SEGMENT = 0x00D
    INVALID_SGL_COUNT = 0x00E
    SGL_DATA_LENGTH_INVALID = 0x00F
    SGL_TYPE_INVALID = 0x011
    SGL_OFFSET_INVALID = 0x016
    NAMESPACE_WRITE_PROTECTED = 0x020
    INVALID_CONTROLLER_DATA_QUEUE = 0x037
    LBA_OUT_OF_RANGE = 0x080
    CAPACITY_EXCEEDED = 0x081
    AER_LIMIT_EXCEEDED = 0x105
    INVALID_LOG_PAGE = 0x109
    FEATURE_NOT_SAVEABLE = 0x10D
    INCOMPATIBLE_FORMAT = 0x180
    CONTROLLER_BUSY = 0x181
    CONNECT_INVALID_PARAMETERS = 0x182
    RESTART_DISCOVERY = 0x183
    CONNECT_INVALID_HOST = 0x184
    OVERLAPPING_IO_RANGE = 0x187
    AUTHENTICATION_REQUIRED = 0x191
    WRITE_FAULT = 0x280
    UNRECOVERED_READ_ERROR = 0x281
    COMPARE_FAILURE = 0x285


# ---- RDMA-CM private data, RDMA Transport figures 6 to 9 ----


def cm_request(
    qid: int, hrqsize: int, hsqsize: int, cntlid: int = 0, *, recfmt: int = 0, size: int = 32
) -> bytes:
    """Private data of a connection request; hsqsize is 0's based."""
    return struct.pack("<HHHHH", recfmt, qid, hrqsize, hsqsize, cntlid).ljust(32, b"\0")[:size]


def cm_accept(crqsize: int) -> bytes:
    """Private data of an accepted connection."""
    return struct.pack("<HH", 0, crqsize).ljust(32, b"\0")


def cm_reject(status: int) -> bytes:
    """Private data of a reject."""
    return struct.pack("<HH", 0, status)


# ---- SGL descriptors, Base 4.1.2 ----


def keyed(address: int, length: int, key: int, *, kind: int = 0x40) -> bytes:
    """Return a keyed SGL data block descriptor; kind 0x4F requests invalidation."""
    return struct.pack("<Q", address) + length.to_bytes(3, "little") + struct.pack("<IB", key, kind)


def in_capsule(offset: int, length: int, *, kind: int = 0x01) -> bytes:
    """A data block at an offset of the capsule's data (or another unkeyed descriptor)."""
    return struct.pack("<QI3xB", offset, length, kind)


NO_DATA = keyed(0, 0, 0)


# ---- commands ----


def sqe(
    opcode: int,
    *,
    cid: int = 0,
    nsid: int = 0,
    flags: int = PSDT_SGL,
    sgl: bytes = NO_DATA,
    cdw2: int = 0,
    cdw3: int = 0,
    mptr: int = 0,
    cdw: tuple[int, ...] = (),
) -> bytes:
    """Return a submission queue entry; cdw holds CDW10 and the following dwords."""
    words = (*cdw, 0, 0, 0, 0, 0, 0)[:6]
    head = struct.pack("<BBHIIIQ", opcode, flags, cid, nsid, cdw2, cdw3, mptr)
    return head + sgl + struct.pack("<6I", *words)


def fabrics(
    fctype: int, body: bytes, *, cid: int = 0, sgl: bytes = NO_DATA, flags: int = PSDT_SGL
) -> bytes:
    """A fabrics command; body is bytes 40 to 63."""
    head = struct.pack("<BBHB19x", FABRICS, flags, cid, fctype)
    return head + sgl + body.ljust(24, b"\0")


def connect(
    qid: int,
    sqsize: int,
    *,
    kato: int = 0,
    cattr: int = 0,
    recfmt: int = 0,
    cid: int = 0,
    sgl: bytes = NO_DATA,
) -> bytes:
    """Connect; sqsize is 0's based, kato in milliseconds."""
    body = struct.pack("<HHHBxI", recfmt, qid, sqsize, cattr, kato)
    return fabrics(Fctype.CONNECT, body, cid=cid, sgl=sgl)


def connect_data(hostid: bytes, cntlid: int, subnqn: str, hostnqn: str) -> bytes:
    """Return the 1024 bytes of data for Connect."""
    head = hostid + struct.pack("<H238x", cntlid)
    return head + subnqn.encode().ljust(256, b"\0") + hostnqn.encode().ljust(512, b"\0")


def property_get(offset: int, size: int = 4, *, cid: int = 0) -> bytes:
    """Property Get of 4 or 8 bytes."""
    return fabrics(Fctype.PROPERTY_GET, struct.pack("<B3xI", size == 8, offset), cid=cid)


def property_set(offset: int, value: int, size: int = 4, *, cid: int = 0) -> bytes:
    """Property Set of 4 or 8 bytes."""
    body = struct.pack("<B3xIQ", size == 8, offset, value)
    return fabrics(Fctype.PROPERTY_SET, body, cid=cid)


@dataclass(frozen=True)
class Cqe:
    """A completion queue entry."""

    dw0: int
    dw1: int
    sqhd: int
    sqid: int
    cid: int
    raw_status: int

    @property
    def status(self) -> int:
        """SCT << 8 | SC."""
        return self.raw_status >> 1 & 0x7FF

    @property
    def dnr(self) -> bool:
        """Do Not Retry."""
        return bool(self.raw_status & 0x8000)


def decode_cqe(data: bytes) -> Cqe:
    """The completion in a response capsule."""
    if len(data) != CQE_SIZE:
        raise AssertionError(f"a response capsule of {len(data)} bytes, not 16")
    return Cqe(*struct.unpack("<IIHHHH", data))


def status_name(status: int) -> str:
    """The name of a status without DNR."""
    status &= 0x7FF
    return Status(status).name if status in Status._value2member_map_ else f"{status:#05x}"


def describe_sqe(capsule: bytes) -> str:
    """One line about a command capsule."""
    opcode, flags, cid, nsid = struct.unpack_from("<BBHI", capsule)
    words = struct.unpack_from("<6I", capsule, 40)
    what = f"fctype {capsule[4]:#04x}" if opcode == FABRICS else f"nsid {nsid:#x}"
    text = " ".join(f"{word:x}" for word in words)
    return (
        f"opc {opcode:#04x} flags {flags:#04x} cid {cid:#x} {what} sgl {capsule[24:40].hex()} "
        f"cdw10: {text} +{len(capsule) - SQE_SIZE}"
    )


def describe_cqe(capsule: bytes) -> str:
    """One line about a response capsule."""
    cqe = decode_cqe(capsule)
    return (
        f"cid {cqe.cid:#x} {status_name(cqe.status)} raw {cqe.raw_status:#06x} dw0 {cqe.dw0:#x} "
        f"dw1 {cqe.dw1:#x} sqhd {cqe.sqhd} sqid {cqe.sqid}"
    )
