# SPDX-License-Identifier: BSD-3-Clause
"""Log pages (Base 2.0, 5.16.1); the discovery log is in fabrics."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Annotated

from nvmf.spec.layout import Register, Structure, ascii_, bits, u8, u16, u32, u64, u128
from nvmf.spec.status import DecodeError

ERROR_ENTRY_SIZE = 64
CHANGED_NAMESPACES_MAX = 1024
CHANGED_NAMESPACES_OVERFLOW = 0xFFFFFFFF
"""First and only entry if more than 1024 namespaces changed."""


@dataclass(frozen=True, slots=True)
class ErrorEntry(Structure):
    """Error information log entry (figure 206)."""

    SIZE = ERROR_ENTRY_SIZE
    error_count: Annotated[int, u64(0)] = 0
    """1 for the first error since the controller was created; 0: no entry."""
    sqid: Annotated[int, u16(8)] = 0
    cid: Annotated[int, u16(10)] = 0
    status_field: Annotated[int, u16(12)] = 0
    """Status << 1; bit 0 is the phase bit."""
    parameter_error_location: Annotated[int, u16(14)] = 0xFFFF
    lba: Annotated[int, u64(16)] = 0
    nsid: Annotated[int, u32(24)] = 0
    vendor: Annotated[int, u8(28)] = 0
    trtype: Annotated[int, u8(29)] = 0
    csi: Annotated[int, u8(30)] = 0
    opcode: Annotated[int, u8(31)] = 0
    command_specific: Annotated[int, u64(32)] = 0
    transport_specific: Annotated[int, u16(40)] = 0


class CriticalWarning(IntFlag):
    """Critical Warning of the SMART log."""

    SPARE_LOW = 1 << 0
    TEMPERATURE = 1 << 1
    RELIABILITY_DEGRADED = 1 << 2
    READ_ONLY = 1 << 3
    VOLATILE_MEMORY_FAILED = 1 << 4


@dataclass(frozen=True, slots=True)
class SmartLog(Structure):
    """SMART / health information (figure 207)."""

    SIZE = 512
    critical_warning: Annotated[int, u8(0)] = 0
    composite_temperature: Annotated[int, u16(1)] = 0
    """Kelvin; 0: not reported."""
    available_spare: Annotated[int, u8(3)] = 0
    """Percent."""
    available_spare_threshold: Annotated[int, u8(4)] = 0
    percentage_used: Annotated[int, u8(5)] = 0
    endurance_group_warning: Annotated[int, u8(6)] = 0
    data_units_read: Annotated[int, u128(32)] = 0
    """Thousands of 512 bytes, rounded up."""
    data_units_written: Annotated[int, u128(48)] = 0
    host_read_commands: Annotated[int, u128(64)] = 0
    host_write_commands: Annotated[int, u128(80)] = 0
    controller_busy_time: Annotated[int, u128(96)] = 0
    """Minutes."""
    power_cycles: Annotated[int, u128(112)] = 0
    power_on_hours: Annotated[int, u128(128)] = 0
    unsafe_shutdowns: Annotated[int, u128(144)] = 0
    media_errors: Annotated[int, u128(160)] = 0
    error_log_entries: Annotated[int, u128(176)] = 0


@dataclass(frozen=True, slots=True)
class FirmwareSlotLog(Structure):
    """Firmware slot information (figure 209)."""

    SIZE = 512
    afi: Annotated[int, u8(0)] = 1
    """Active firmware slot in bits 2:0."""
    frs1: Annotated[str, ascii_(8, 8)] = ""
    """Revision in slot 1."""


@dataclass(frozen=True, slots=True)
class Effects(Register):
    """Entry of the commands supported and effects log for one command (figure 211)."""

    csupp: Annotated[int, bits(0)] = 0
    """The command is supported."""
    lbcc: Annotated[int, bits(1)] = 0
    """The command may change logical block content."""
    ncc: Annotated[int, bits(2)] = 0
    nic: Annotated[int, bits(3)] = 0
    ccc: Annotated[int, bits(4)] = 0
    cse: Annotated[int, bits(16, 18)] = 0
    """Submission and execution: 1, one command per namespace; 2, one command per controller."""
    namespace_scope: Annotated[int, bits(20)] = 0
    controller_scope: Annotated[int, bits(21)] = 0


def data_units(byte_count: int) -> int:
    """Convert bytes to the unit of the SMART log: thousands of 512 bytes, rounded up."""
    return -(-byte_count // 512_000)


def encode_changed_namespaces(nsids: Iterable[int]) -> bytes:
    """Encode the NSIDs, ascending, or FFFFFFFFh if there are more than 1024, to 4096 bytes."""
    ordered = sorted(set(nsids))
    if len(ordered) > CHANGED_NAMESPACES_MAX:
        ordered = [CHANGED_NAMESPACES_OVERFLOW]
    return struct.pack(f"<{len(ordered)}I", *ordered).ljust(4096, b"\0")


def decode_changed_namespaces(data: bytes) -> list[int]:
    """Return the NSIDs; [FFFFFFFFh] means that any namespace may have changed."""
    nsids = []
    for (nsid,) in struct.iter_unpack("<I", data[: len(data) & ~3]):
        if nsid == 0:
            break
        nsids.append(int(nsid))
    return nsids


def encode_effects(admin: Mapping[int, Effects], io: Mapping[int, Effects]) -> bytes:
    """Encode the effects of admin and I/O commands, by opcode, to 4096 bytes."""
    words = [0] * 1024
    for base, table in ((0, admin), (256, io)):
        for opcode, effects in table.items():
            words[base + opcode] = effects.encode()
    return struct.pack("<1024I", *words)


def decode_effects(data: bytes) -> tuple[dict[int, Effects], dict[int, Effects]]:
    """Return effects of supported admin and I/O opcodes; raise DecodeError if truncated."""
    if len(data) < 2048:
        raise DecodeError(f"commands supported and effects log of {len(data)} bytes")
    words = struct.unpack_from("<512I", data)
    tables: list[dict[int, Effects]] = []
    for base in (0, 256):
        part = enumerate(words[base : base + 256])
        tables.append({opcode: Effects.decode(word) for opcode, word in part if word & 1})
    return tables[0], tables[1]


def encode_supported_pages(lids: Iterable[int], specific: Mapping[int, int] | None = None) -> bytes:
    """Encode the supported log pages (figure 204), some with a LIDSP, to 1024 bytes."""
    words = [0] * 256
    for lid in lids:
        words[lid] = 1 | (specific or {}).get(lid, 0) << 16
    return struct.pack("<256I", *words)


def decode_supported_pages(data: bytes) -> list[int]:
    """Return the log page identifiers; raise DecodeError if the page is truncated."""
    if len(data) < 1024:
        raise DecodeError(f"supported log pages log of {len(data)} bytes")
    return [lid for lid, word in enumerate(struct.unpack_from("<256I", data)) if word & 1]


def encode_supported_features(fids: Iterable[int]) -> bytes:
    """Encode the feature identifiers supported and effects log to 1024 bytes."""
    words = [0] * 256
    for fid in fids:
        words[fid] = 1
    return struct.pack("<256I", *words)
