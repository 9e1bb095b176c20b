# SPDX-License-Identifier: BSD-3-Clause
"""Completion queue entries (Base 2.0, figure 89)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from nvmf.spec.status import DecodeError

SIZE = 16
"""Bytes of a completion queue entry."""
_FORM = struct.Struct("<IIHHHH")


@dataclass(frozen=True, slots=True)
class Cqe:
    """A completion queue entry."""

    dw0: int = 0
    dw1: int = 0
    sqhd: int = 0
    """Submission queue head pointer."""
    sqid: int = 0
    """Reserved on fabrics."""
    cid: int = 0
    status: int = 0
    """SCT << 8 | SC with MORE and DNR: the status field without the phase bit, which is bit 0."""

    @property
    def result(self) -> int:
        """Dwords 0 and 1 as one 64-bit value (Property Get)."""
        return self.dw1 << 32 | self.dw0

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Decode 16 bytes; raise DecodeError if there are fewer."""
        if len(data) < SIZE:
            raise DecodeError(f"CQE of {len(data)} bytes")
        dw0, dw1, sqhd, sqid, cid, status = _FORM.unpack_from(data)
        return cls(dw0, dw1, sqhd, sqid, cid, status >> 1)

    def encode(self) -> bytes:
        """Encode to 16 bytes."""
        return _FORM.pack(self.dw0, self.dw1, self.sqhd, self.sqid, self.cid, self.status << 1)
