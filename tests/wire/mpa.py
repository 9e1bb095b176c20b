# SPDX-License-Identifier: BSD-3-Clause
"""MPA: the start-up frames (RFC 5044 7.1, RFC 6581 9) and FPDUs (RFC 5044 4)."""

import struct
from dataclasses import dataclass

from wire.crc32c import crc32c
from wire.errors import WireViolation

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
MARKERS = 0x8000
CRC = 0x4000
REJECT = 0x2000
ENHANCED = 0x1000
REVISION_MASK = 0x00FF
RESERVED_MASK = 0x0F00
HEADER = 20
MAX_PRIVATE_DATA = 512
"""RFC 5044 7.1.1; siw accepts at most 256."""

PEER_TO_PEER = 0x8000
RTR_SEND = 0x4000
RTR_WRITE = 0x8000
RTR_READ = 0x4000
DEPTH_MASK = 0x3FFF


@dataclass(frozen=True)
class StartFrame:
    """One MPA Request or Reply frame."""

    reply: bool
    bits: int
    private_data: bytes
    """As on the wire, including the enhanced words."""

    @property
    def revision(self) -> int:
        """The protocol revision."""
        return self.bits & REVISION_MASK

    @property
    def enhanced(self) -> bool:
        """Whether IRD and ORD words begin the private data."""
        return bool(self.bits & ENHANCED)

    @property
    def words(self) -> tuple[int, int]:
        """The IRD and ORD words with their control bits; (0, 0) if not enhanced."""
        if not self.enhanced:
            return 0, 0
        if len(self.private_data) < 4:
            raise WireViolation("an enhanced MPA frame has no IRD and ORD (RFC 6581 9.1)")
        ird, ord_ = struct.unpack_from(">HH", self.private_data)
        return int(ird), int(ord_)

    @property
    def application_data(self) -> bytes:
        """Private data of the application."""
        return self.private_data[4:] if self.enhanced else self.private_data

    def encode(self) -> bytes:
        """The frame as bytes."""
        key = REPLY_KEY if self.reply else REQUEST_KEY
        return key + struct.pack(">HH", self.bits, len(self.private_data)) + self.private_data


def enhanced_data(ird: int, ord_: int, private_data: bytes) -> bytes:
    """Return private data after the words of RFC 6581."""
    return struct.pack(">HH", ird, ord_) + private_data


def decode_start(data: bytes) -> tuple[StartFrame, int] | None:
    """Return the start-up frame at the beginning of data and its length, or None if incomplete."""
    if len(data) < HEADER:
        return None
    if data[:16] not in (REQUEST_KEY, REPLY_KEY):
        raise WireViolation(f"no MPA key: {data[:16]!r} (RFC 5044 7.1.1)")
    bits, length = struct.unpack_from(">HH", data, 16)
    if bits & RESERVED_MASK:
        raise WireViolation(f"reserved MPA bits set: {bits:#06x} (RFC 5044 7.1.1)")
    if length > MAX_PRIVATE_DATA:
        raise WireViolation(f"{length} bytes of private data (RFC 5044 7.1.1: at most 512)")
    if len(data) < HEADER + length:
        return None
    frame = StartFrame(data[:16] == REPLY_KEY, bits, data[HEADER : HEADER + length])
    return frame, HEADER + length


def fpdu_size(ulpdu_length: int) -> int:
    """Return the size on the wire of an FPDU: length field, ULPDU, pad, CRC."""
    return (2 + ulpdu_length + 3) // 4 * 4 + 4


def encode_fpdu(ulpdu: bytes, crc: bool) -> bytes:
    """An FPDU around ulpdu."""
    body = struct.pack(">H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    return body + (struct.pack("<I", crc32c(body)) if crc else bytes(4))


def decode_fpdu(data: bytes, crc: bool) -> tuple[bytes, int] | None:
    """Return the ULPDU at the beginning of data and the FPDU's size, or None if incomplete."""
    if len(data) < 2:
        return None
    (length,) = struct.unpack_from(">H", data)
    size = fpdu_size(length)
    if len(data) < size:
        return None
    body, field = data[: size - 4], data[size - 4 : size]
    if any(body[2 + length :]):
        raise WireViolation("MPA pad is not zero (RFC 5044 4.1)")
    if crc and field != struct.pack("<I", crc32c(body)):
        raise WireViolation(f"MPA CRC is {field.hex()}, not {crc32c(body):#010x} (RFC 5044 4.4)")
    if not crc and any(field):
        raise WireViolation(f"the MPA CRC field is {field.hex()} where CRC is off")
    return body[2 : 2 + length], size
