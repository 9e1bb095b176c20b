# SPDX-License-Identifier: BSD-3-Clause
"""Scatter gather list descriptors (Base 2.0, 4.1.2; RDMA Transport 1.0, 3.2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from nvmf.spec.status import DecodeError, Status

SIZE = 16
"""Bytes of a descriptor."""


class SglType(IntEnum):
    """Type and subtype of the descriptors used over RDMA (byte 15)."""

    IN_CAPSULE = 0x01
    """Data block at an offset in the capsule."""
    LAST_SEGMENT_IN_CAPSULE = 0x31
    """A list of descriptors at an offset in the capsule."""
    KEYED = 0x40
    """Keyed data block in the host's memory."""
    KEYED_INVALIDATE = 0x4F
    """Keyed data block whose key the response invalidates."""
    TRANSPORT = 0x5A
    """Transport SGL data block: the transport defines the location."""


@dataclass(frozen=True, slots=True)
class Sgl:
    """One descriptor."""

    type: int
    """Type << 4 | subtype."""
    address: int
    """Host address for keyed descriptors, byte offset for offset descriptors."""
    length: int
    """Bytes."""
    key: int = 0
    """Remote key (keyed descriptors only)."""

    @property
    def keyed(self) -> bool:
        """Whether this is a keyed data block, of any subtype."""
        return self.type >> 4 == 4

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Decode 16 bytes; DecodeError (Invalid SGL Segment Descriptor) if there are fewer."""
        if len(data) < SIZE:
            raise DecodeError(
                f"SGL descriptor of {len(data)} bytes", Status.INVALID_SGL_SEGMENT_DESCRIPTOR
            )
        kind = data[15]
        (address,) = struct.unpack_from("<Q", data)
        if kind >> 4 == 4:
            length = int.from_bytes(data[8:11], "little")
            return cls(kind, address, length, int.from_bytes(data[11:15], "little"))
        return cls(kind, address, int.from_bytes(data[8:12], "little"))

    def encode(self) -> bytes:
        """Encode to 16 bytes; raise ValueError if a value does not fit its field."""
        if not 0 <= self.length < 1 << (24 if self.keyed else 32):
            raise ValueError(f"SGL length {self.length} does not fit")
        if self.keyed:
            tail = self.length.to_bytes(3, "little") + self.key.to_bytes(4, "little")
        else:
            tail = self.length.to_bytes(4, "little") + bytes(3)
        return struct.pack("<Q", self.address) + tail + bytes([self.type])
