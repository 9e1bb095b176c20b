# SPDX-License-Identifier: BSD-3-Clause
"""Submission queue entries: the common format, and views of the command specific dwords."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Self

from nvmf.spec.layout import Register, bits
from nvmf.spec.sgl import Sgl
from nvmf.spec.status import DecodeError, Status

SIZE = 64
"""Bytes of a submission queue entry."""
PSDT_SGL = 0x40
"""Byte 1: the transfer uses SGLs; fabrics support nothing else."""
_FORM = struct.Struct("<BBHIIIQ16s6I")
_BLOCKS_FORM = struct.Struct("<BxxxI32xQII8x")


@dataclass(frozen=True, slots=True)
class Sqe:
    """A submission queue entry (Base 2.0, figure 87)."""

    opcode: int
    nsid: int = 0
    cdw10: int = 0
    cdw11: int = 0
    cdw12: int = 0
    cdw13: int = 0
    cdw14: int = 0
    cdw15: int = 0
    cdw2: int = 0
    cdw3: int = 0
    mptr: int = 0
    cid: int = 0
    """Command identifier; on hosts, the engine sets it."""
    flags: int = 0
    """FUSE in bits 1:0, PSDT in bits 7:6; on hosts, the engine sets PSDT."""
    sgl1: bytes = bytes(16)
    """The data pointer; on hosts, the engine sets it."""

    @property
    def fuse(self) -> int:
        """Fused operation: 0 is a normal command."""
        return self.flags & 3

    @property
    def psdt(self) -> int:
        """PRP or SGL for Data Transfer."""
        return self.flags >> 6

    @property
    def fctype(self) -> int:
        """Fabrics command type (opcode 7Fh only), in the place of the NSID."""
        return self.nsid & 0xFF

    @property
    def sgl(self) -> Sgl:
        """The first descriptor."""
        return Sgl.decode(self.sgl1)

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Decode 64 bytes; raise DecodeError if there are fewer."""
        if len(data) < SIZE:
            raise DecodeError(f"SQE of {len(data)} bytes", Status.INVALID_FIELD)
        opcode, flags, cid, nsid, cdw2, cdw3, mptr, sgl1, *cdw = _FORM.unpack_from(data)
        ten, eleven, twelve, thirteen, fourteen, fifteen = cdw
        return cls(
            opcode,
            nsid,
            ten,
            eleven,
            twelve,
            thirteen,
            fourteen,
            fifteen,
            cdw2,
            cdw3,
            mptr,
            cid,
            flags,
            sgl1,
        )

    def encode(self) -> bytes:
        """Encode to 64 bytes; raise ValueError if a value does not fit its field."""
        try:
            return _FORM.pack(
                self.opcode,
                self.flags,
                self.cid,
                self.nsid,
                self.cdw2,
                self.cdw3,
                self.mptr,
                self.sgl1,
                self.cdw10,
                self.cdw11,
                self.cdw12,
                self.cdw13,
                self.cdw14,
                self.cdw15,
            )
        except struct.error as error:
            raise ValueError(f"{self}: {error}") from None


def encode_blocks(opcode: int, nsid: int, slba: int, cdw12: int, cdw13: int) -> bytes:
    """Encode a command on a range of blocks; raise ValueError if a value does not fit its field.

    The result is that of Sqe.encode(), in a fraction of its time: each read and write needs one.
    """
    try:
        return _BLOCKS_FORM.pack(opcode, nsid, slba, cdw12, cdw13)
    except struct.error as error:
        raise ValueError(f"opcode {opcode:02x}h of namespace {nsid}, LBA {slba}: {error}") from None


class At(IntEnum):
    """Location of a parameter in a command: byte, and bit << 8 (Base 2.0, figure 206)."""

    OPCODE = 0
    FUSE = 1
    PSDT = 1 | 6 << 8
    NSID = 4
    """FCTYPE in fabrics commands."""
    DPTR = 24
    DW10 = 40
    """CNS, LID, FID; SQID of Abort, ATTRIB of Property Get and Set, SLBA of I/O commands."""
    IEKEY = 40 | 3 << 8
    SEL = 41
    RTYPE = 41
    CNTID = 42
    NUMDL = 42
    CPTPL = 43 | 6 << 8
    SV = 43 | 7 << 8
    DW11 = 44
    """A feature's new value; OFST of Property Get and Set, TL and AL of authentication."""
    IDENTIFY_CSI = 47
    LPO = 48
    OT = 58 | 7 << 8
    LOG_CSI = 59


@dataclass(frozen=True, slots=True)
class IdentifyDw10(Register):
    """Identify, dword 10 (Base 2.0, figure 270)."""

    cns: Annotated[int, bits(0, 7)] = 0
    cntid: Annotated[int, bits(16, 31)] = 0


@dataclass(frozen=True, slots=True)
class IdentifyDw11(Register):
    """Identify, dword 11 (Base 2.0, figure 271)."""

    cns_specific: Annotated[int, bits(0, 15)] = 0
    csi: Annotated[int, bits(24, 31)] = 0


@dataclass(frozen=True, slots=True)
class LogDw10(Register):
    """Get Log Page, dword 10 (Base 2.0, figure 197)."""

    lid: Annotated[int, bits(0, 7)] = 0
    lsp: Annotated[int, bits(8, 14)] = 0
    rae: Annotated[int, bits(15)] = 0
    """Retain Asynchronous Event."""
    numdl: Annotated[int, bits(16, 31)] = 0
    """Number of dwords, 0's based, low half."""


@dataclass(frozen=True, slots=True)
class LogDw11(Register):
    """Get Log Page, dword 11 (Base 2.0, figure 198)."""

    numdu: Annotated[int, bits(0, 15)] = 0
    lsi: Annotated[int, bits(16, 31)] = 0


@dataclass(frozen=True, slots=True)
class LogDw14(Register):
    """Get Log Page, dword 14 (Base 2.0, figure 201)."""

    uuid_index: Annotated[int, bits(0, 6)] = 0
    ot: Annotated[int, bits(23)] = 0
    """Offset Type: 1 is an index, 0 is bytes."""
    csi: Annotated[int, bits(24, 31)] = 0


@dataclass(frozen=True, slots=True)
class GetFeaturesDw10(Register):
    """Get Features, dword 10 (Base 2.0, figure 191)."""

    fid: Annotated[int, bits(0, 7)] = 0
    sel: Annotated[int, bits(8, 10)] = 0
    """0 current, 1 default, 2 saved, 3 supported capabilities."""


@dataclass(frozen=True, slots=True)
class SetFeaturesDw10(Register):
    """Set Features, dword 10 (Base 2.0, figure 315)."""

    fid: Annotated[int, bits(0, 7)] = 0
    sv: Annotated[int, bits(31)] = 0
    """Save."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The parameters of a Get Log Page command."""

    lid: int
    length: int
    """Bytes."""
    offset: int
    """Bytes."""
    lsp: int
    rae: bool
    csi: int
    offset_is_index: bool

    @classmethod
    def of(cls, sqe: Sqe) -> Self:
        """Decode a command's dwords 10 to 14."""
        dw10, dw11 = LogDw10.decode(sqe.cdw10), LogDw11.decode(sqe.cdw11)
        dw14 = LogDw14.decode(sqe.cdw14)
        return cls(
            lid=dw10.lid,
            length=((dw11.numdu << 16 | dw10.numdl) + 1) * 4,
            offset=sqe.cdw13 << 32 | sqe.cdw12,
            lsp=dw10.lsp,
            rae=bool(dw10.rae),
            csi=dw14.csi,
            offset_is_index=bool(dw14.ot),
        )
