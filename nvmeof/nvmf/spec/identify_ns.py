# SPDX-License-Identifier: BSD-3-Clause
"""Identify data of namespaces (Base 2.0, 5.17.2; NVM Command Set 1.0, 4.1.5)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated

from nvmf.spec.layout import Structure, raw, u8, u16, u32, u64, u128
from nvmf.spec.status import DecodeError

_SIZE = 4096

NIDT_EUI64 = 1
NIDT_NGUID = 2
NIDT_UUID = 3
NIDT_CSI = 4
NIDT_SIZE = {NIDT_EUI64: 8, NIDT_NGUID: 16, NIDT_UUID: 16, NIDT_CSI: 1}
"""Bytes of each kind of namespace identifier (figure 276)."""

NSFEAT_THIN = 1 << 0
NSFEAT_ATOMIC = 1 << 1
"""NSABP: the namespace defines NAWUN, NAWUPF, NACWU, NABSN, NABO and NABSPF."""
NSFEAT_DEALLOCATED_ERROR = 1 << 2
NSFEAT_UID_REUSE = 1 << 3
NSFEAT_OPTPERF = 1 << 4
"""NPWG, NPWA, NPDG, NPDA and NOWS are defined."""
NMIC_SHARED = 1 << 0
"""The namespace may be attached to more than one controller."""
NSATTR_WRITE_PROTECTED = 1 << 0
DLFEAT_READS_ZERO = 1
"""A deallocated block reads as zeroes."""


@dataclass(frozen=True, slots=True)
class IdentifyNamespace(Structure):
    """Identify Namespace of the NVM command set (CNS 00h; NVM 1.0, figure 97)."""

    SIZE = _SIZE
    nsze: Annotated[int, u64(0)] = 0
    """Logical blocks."""
    ncap: Annotated[int, u64(8)] = 0
    """Logical blocks that may be allocated; 0: the namespace is not active."""
    nuse: Annotated[int, u64(16)] = 0
    nsfeat: Annotated[int, u8(24)] = 0
    nlbaf: Annotated[int, u8(25)] = 0
    """LBA formats, 0's based."""
    flbas: Annotated[int, u8(26)] = 0
    mc: Annotated[int, u8(27)] = 0
    dpc: Annotated[int, u8(28)] = 0
    dps: Annotated[int, u8(29)] = 0
    nmic: Annotated[int, u8(30)] = 0
    rescap: Annotated[int, u8(31)] = 0
    fpi: Annotated[int, u8(32)] = 0
    dlfeat: Annotated[int, u8(33)] = 0
    nawun: Annotated[int, u16(34)] = 0
    """Atomic write unit, normal: logical blocks, 0's based."""
    nawupf: Annotated[int, u16(36)] = 0
    """Atomic write unit, power fail: logical blocks, 0's based."""
    nacwu: Annotated[int, u16(38)] = 0
    """Atomic compare and write unit: logical blocks, 0's based."""
    nabsn: Annotated[int, u16(40)] = 0
    """Atomic boundary size, normal: logical blocks, 0's based; 0: no boundary."""
    nabo: Annotated[int, u16(42)] = 0
    """Atomic boundary offset: the logical block at which the first atomic boundary begins."""
    nabspf: Annotated[int, u16(44)] = 0
    """Atomic boundary size, power fail, like NABSN."""
    noiob: Annotated[int, u16(46)] = 0
    nvmcap: Annotated[int, u128(48)] = 0
    """Bytes."""
    npwg: Annotated[int, u16(64)] = 0
    """Preferred write granularity: logical blocks, 0's based."""
    npwa: Annotated[int, u16(66)] = 0
    npdg: Annotated[int, u16(68)] = 0
    npda: Annotated[int, u16(70)] = 0
    nows: Annotated[int, u16(72)] = 0
    """Optimal write size: logical blocks, 0's based."""
    mssrl: Annotated[int, u16(74)] = 0
    """Maximum single source range length of Copy: logical blocks."""
    mcl: Annotated[int, u32(76)] = 0
    """Maximum copy length: logical blocks of all source ranges of a Copy."""
    msrc: Annotated[int, u8(80)] = 0
    """Maximum source range count of Copy, 0's based."""
    anagrpid: Annotated[int, u32(92)] = 0
    nsattr: Annotated[int, u8(99)] = 0
    nvmsetid: Annotated[int, u16(100)] = 0
    endgid: Annotated[int, u16(102)] = 0
    nguid: Annotated[bytes, raw(104, 16)] = bytes(16)
    eui64: Annotated[bytes, raw(120, 8)] = bytes(8)
    lbafs: Annotated[bytes, raw(128, 256)] = bytes(256)
    """LBA formats, 4 bytes each: MS u16, LBADS u8, RP u8."""

    @property
    def format_index(self) -> int:
        """The LBA format in use."""
        return (self.flbas & 0xF) | (self.flbas >> 5 & 3) << 4

    @property
    def formats(self) -> list[tuple[int, int, int]]:
        """(MS, LBADS, RP) of each format: metadata bytes, log2 of the block size, performance."""
        return [
            (
                int.from_bytes(self.lbafs[at : at + 2], "little"),
                self.lbafs[at + 2],
                self.lbafs[at + 3],
            )
            for at in range(0, 4 * min(self.nlbaf + 1, 64), 4)
        ]

    @property
    def block_size(self) -> int:
        """Bytes of a logical block in the format in use; 0 if LBADS is invalid."""
        return 1 << self.lbads if 9 <= self.lbads < 32 else 0

    @property
    def lbads(self) -> int:
        """log2 of the bytes of a logical block in the format in use."""
        return self.lbafs[4 * self.format_index + 2]

    @property
    def metadata_size(self) -> int:
        """Bytes of metadata per logical block in the format in use."""
        at = 4 * self.format_index
        return int.from_bytes(self.lbafs[at : at + 2], "little")

    @property
    def size(self) -> int:
        """Bytes."""
        return self.nsze * self.block_size


def lba_format(block_size: int) -> bytes:
    """Encode an LBA format without metadata; ValueError if not a power of two of at least 512."""
    if block_size < 512 or block_size & (block_size - 1):
        raise ValueError(f"block size {block_size} is not a power of two of at least 512")
    return bytes((0, 0, block_size.bit_length() - 1, 0))


@dataclass(frozen=True, slots=True)
class IdentifyNvmNamespace(Structure):
    """Identify Namespace, NVM specific part (CNS 05h, CSI 00h; NVM 1.0, figure 100)."""

    SIZE = _SIZE
    lbstm: Annotated[int, u64(0)] = 0
    pic: Annotated[int, u8(8)] = 0
    elbafs: Annotated[bytes, raw(12, 256)] = bytes(256)
    """Extended LBA formats, 4 bytes each."""


@dataclass(frozen=True, slots=True)
class IdentifyIndependentNamespace(Structure):
    """I/O Command Set Independent Identify Namespace (CNS 08h; Base 2.0, figure 280)."""

    SIZE = _SIZE
    nsfeat: Annotated[int, u8(0)] = 0
    nmic: Annotated[int, u8(1)] = 0
    rescap: Annotated[int, u8(2)] = 0
    fpi: Annotated[int, u8(3)] = 0
    anagrpid: Annotated[int, u32(4)] = 0
    nsattr: Annotated[int, u8(8)] = 0
    nvmsetid: Annotated[int, u16(10)] = 0
    endgid: Annotated[int, u16(12)] = 0
    nstat: Annotated[int, u8(14)] = 0
    """Bit 0: the namespace is ready."""


@dataclass(frozen=True, slots=True)
class NamespaceIds:
    """The identifiers in the Namespace Identification Descriptors (CNS 03h)."""

    eui64: bytes | None = None
    """8 bytes."""
    nguid: bytes | None = None
    """16 bytes."""
    uuid: uuid.UUID | None = None
    csi: int | None = None


def encode_descriptors(ids: NamespaceIds) -> bytes:
    """Encode the identifiers that are not None (EUI64, NGUID, UUID, CSI) to 4096 bytes."""
    parts = [
        (NIDT_EUI64, ids.eui64),
        (NIDT_NGUID, ids.nguid),
        (NIDT_UUID, ids.uuid.bytes if ids.uuid else None),
        (NIDT_CSI, bytes([ids.csi]) if ids.csi is not None else None),
    ]
    into = b""
    for nidt, value in parts:
        if value is not None:
            if len(value) != NIDT_SIZE[nidt]:
                raise ValueError(f"namespace identifier type {nidt} of {len(value)} bytes")
            into += bytes((nidt, len(value), 0, 0)) + value
    return into.ljust(_SIZE, b"\0")


def decode_descriptors(data: bytes) -> NamespaceIds:
    """Decode up to the first empty descriptor; raise DecodeError if one has a wrong length.

    Descriptors of unknown types are skipped.
    """
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data) and data[at + 1]:
        nidt, nidl = data[at], data[at + 1]
        value = data[at + 4 : at + 4 + nidl]
        if len(value) != nidl or nidl != NIDT_SIZE.get(nidt, nidl):
            raise DecodeError(f"namespace identification descriptor {nidt} of {nidl} bytes")
        found[nidt] = bytes(value)
        at += 4 + nidl
    raw_uuid = found.get(NIDT_UUID)
    csi = found.get(NIDT_CSI)
    return NamespaceIds(
        found.get(NIDT_EUI64),
        found.get(NIDT_NGUID),
        uuid.UUID(bytes=raw_uuid) if raw_uuid else None,
        csi[0] if csi else None,
    )
