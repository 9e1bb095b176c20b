# SPDX-License-Identifier: BSD-3-Clause
"""DDP and RDMAP headers: RFC 5041 section 4, RFC 5040 section 4."""

import struct
from dataclasses import dataclass
from enum import IntEnum

from wire.errors import WireViolation

TAGGED = 0x8000
LAST = 0x4000
DDP_RESERVED = 0x3C00
DDP_VERSION_MASK = 0x0300
DDP_VERSION = 0x0100
RDMAP_VERSION_MASK = 0x00C0
RDMAP_VERSION = 0x0040
RDMAP_RESERVED = 0x0030
VERSIONS = DDP_VERSION | RDMAP_VERSION

QN_SEND, QN_READ, QN_TERMINATE = 0, 1, 2


class Op(IntEnum):
    """RDMAP opcodes, RFC 5040 4.3."""

    WRITE = 0
    READ_REQUEST = 1
    READ_RESPONSE = 2
    SEND = 3
    SEND_INVALIDATE = 4
    SEND_SE = 5
    SEND_SE_INVALIDATE = 6
    TERMINATE = 7


SENDS = (Op.SEND, Op.SEND_INVALIDATE, Op.SEND_SE, Op.SEND_SE_INVALIDATE)


class Layer(IntEnum):
    """Layer field of a Terminate, RFC 5040 4.8."""

    RDMAP = 0
    DDP = 1
    LLP = 2


@dataclass(frozen=True)
class Tagged:
    """A tagged segment: RDMA Write or Read Response."""

    op: int
    last: bool
    stag: int
    to: int
    payload: bytes


@dataclass(frozen=True)
class Untagged:
    """An untagged segment; rsvd is the Invalidate STag of the SEND_*INVALIDATE opcodes."""

    op: int
    last: bool
    rsvd: int
    qn: int
    msn: int
    mo: int
    payload: bytes


@dataclass(frozen=True)
class ReadRequest:
    """The RDMAP header of an RDMA Read Request, RFC 5040 4.4."""

    sink_stag: int
    sink_to: int
    size: int
    source_stag: int
    source_to: int

    def encode(self) -> bytes:
        """28 bytes."""
        return struct.pack(
            ">IQIIQ", self.sink_stag, self.sink_to, self.size, self.source_stag, self.source_to
        )


@dataclass(frozen=True)
class Terminate:
    """A Terminate message's control field and the headers it copies, RFC 5040 4.8."""

    layer: int
    etype: int
    code: int
    header_bits: int = 0
    """M 4 (segment length valid), D 2 (DDP header), R 1 (RDMAP header)."""
    copied: bytes = b""

    def __str__(self) -> str:
        return f"TERMINATE layer {self.layer} etype {self.etype} code {self.code:#04x}"


def control(op: int, *, tagged: bool = False, last: bool = True, versions: int = VERSIONS) -> int:
    """The first 16 bits of a segment."""
    return (TAGGED if tagged else 0) | (LAST if last else 0) | versions | op


def encode_tagged(
    op: int, stag: int, to: int, payload: bytes, *, last: bool = True, versions: int = VERSIONS
) -> bytes:
    """A tagged segment: 14 bytes of header, RFC 5041 4.2."""
    ctrl = control(op, tagged=True, last=last, versions=versions)
    return struct.pack(">HIQ", ctrl, stag, to) + payload


def encode_untagged(
    op: int,
    payload: bytes,
    *,
    msn: int,
    qn: int = QN_SEND,
    mo: int = 0,
    rsvd: int = 0,
    last: bool = True,
    versions: int = VERSIONS,
) -> bytes:
    """An untagged segment: 18 bytes of header, RFC 5041 4.3."""
    ctrl = control(op, last=last, versions=versions)
    return struct.pack(">HIIII", ctrl, rsvd, qn, msn, mo) + payload


def encode_terminate(layer: int, etype: int, code: int) -> bytes:
    """The payload of a Terminate message without copied headers."""
    return struct.pack(">I", layer << 28 | etype << 24 | code << 16)


def decode_terminate(payload: bytes) -> Terminate:
    """The Terminate in the payload of an untagged segment on queue 2."""
    if len(payload) < 4:
        raise WireViolation(f"a Terminate of {len(payload)} bytes (RFC 5040 4.8)")
    (word,) = struct.unpack_from(">I", payload)
    if word & 0x1FFF:
        raise WireViolation(f"reserved bits of Terminate control set: {word:#010x}")
    found = Terminate(
        word >> 28, word >> 24 & 15, word >> 16 & 255, word >> 13 & 7, bytes(payload[4:])
    )
    _check_copied(found)
    return found


def _check_copied(found: Terminate) -> None:
    """The copied headers are exactly those that the bits M, D and R announce."""
    bits, copied = found.header_bits, len(found.copied)
    if bits & 2:
        read_request = 28 if bits & 1 else 0
        allowed = {2 + 14 + read_request, 2 + 18 + read_request}
    else:
        allowed = {2} if bits & 4 else {0}
    if copied not in allowed:
        raise WireViolation(f"{found}: header bits {bits:03b} but {copied} bytes copied")


def decode(ulpdu: bytes) -> Tagged | Untagged:
    """The segment in ulpdu, checked for all that does not depend on the stream's state."""
    if len(ulpdu) < 14:
        raise WireViolation(f"a DDP segment of {len(ulpdu)} bytes")
    (ctrl,) = struct.unpack_from(">H", ulpdu)
    if ctrl & DDP_VERSION_MASK != DDP_VERSION or ctrl & RDMAP_VERSION_MASK != RDMAP_VERSION:
        raise WireViolation(f"DDP or RDMAP version is not 1: {ctrl:#06x}")
    if ctrl & (DDP_RESERVED | RDMAP_RESERVED):
        raise WireViolation(f"reserved DDP or RDMAP bits set: {ctrl:#06x}")
    op, last = ctrl & 15, bool(ctrl & LAST)
    if ctrl & TAGGED:
        if op not in (Op.WRITE, Op.READ_RESPONSE):
            raise WireViolation(f"opcode {op} in a tagged segment (RFC 5040 figure 4)")
        stag, to = struct.unpack_from(">IQ", ulpdu, 2)
        return Tagged(op, last, stag, to, ulpdu[14:])
    if len(ulpdu) < 18:
        raise WireViolation(f"an untagged DDP segment of {len(ulpdu)} bytes")
    rsvd, qn, msn, mo = struct.unpack_from(">IIII", ulpdu, 2)
    if op in SENDS:
        queue = QN_SEND
    elif op == Op.READ_REQUEST:
        queue = QN_READ
    elif op == Op.TERMINATE:
        queue = QN_TERMINATE
    else:
        raise WireViolation(f"opcode {op} in an untagged segment (RFC 5040 figure 4)")
    if qn != queue:
        raise WireViolation(f"opcode {op} on queue {qn} (RFC 5040 figure 4)")
    if op not in (Op.SEND_INVALIDATE, Op.SEND_SE_INVALIDATE) and rsvd:
        raise WireViolation(f"opcode {op} with {rsvd:#x} in the reserved field")
    return Untagged(op, last, rsvd, qn, msn, mo, ulpdu[18:])


def decode_read_request(payload: bytes) -> ReadRequest:
    """The Read Request in the payload of an untagged segment on queue 1."""
    if len(payload) != 28:
        raise WireViolation(f"a Read Request header of {len(payload)} bytes (RFC 5040 4.4)")
    return ReadRequest(*struct.unpack(">IQIIQ", payload))
