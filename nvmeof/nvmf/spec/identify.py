# SPDX-License-Identifier: BSD-3-Clause
"""Identify data of controllers (Base 2.0, figure 275); namespaces are in identify_ns."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from typing import Annotated

from nvmf.spec.identify_ns import (
    IdentifyIndependentNamespace,
    IdentifyNamespace,
    IdentifyNvmNamespace,
    NamespaceIds,
    decode_descriptors,
    encode_descriptors,
)
from nvmf.spec.layout import Structure, ascii_, raw, u8, u16, u32, u64, u128, utf8
from nvmf.spec.status import DecodeError

IDENTIFY_SIZE = 4096
"""Bytes of every Identify data structure."""

__all__ = [
    "IDENTIFY_SIZE",
    "Cmic",
    "Ctratt",
    "IdentifyController",
    "IdentifyIndependentNamespace",
    "IdentifyNamespace",
    "IdentifyNvmController",
    "IdentifyNvmNamespace",
    "NamespaceIds",
    "Oncs",
    "PowerState",
    "Sgls",
    "decode_command_sets",
    "decode_controller_list",
    "decode_descriptors",
    "decode_namespace_list",
    "encode_command_sets",
    "encode_controller_list",
    "encode_descriptors",
    "encode_namespace_list",
]


class Cmic(IntFlag):
    """Controller Multi-Path I/O and Namespace Sharing Capabilities."""

    MULTI_PORT = 1 << 0
    MULTI_CONTROLLER = 1 << 1
    VIRTUAL_FUNCTION = 1 << 2
    ANA = 1 << 3


class Ctratt(IntFlag):
    """Controller Attributes."""

    HOST_ID_128 = 1 << 0
    TBKAS = 1 << 6
    """Traffic Based Keep Alive Support."""
    EXTENDED_LBA_FORMATS = 1 << 15


class Nwpc(IntFlag):
    """Namespace Write Protection Capabilities: the supported states."""

    WRITE_PROTECT = 1 << 0
    UNTIL_POWER_CYCLE = 1 << 1
    PERMANENT = 1 << 2


class Oncs(IntFlag):
    """Optional NVM Command Support."""

    COMPARE = 1 << 0
    WRITE_UNCORRECTABLE = 1 << 1
    DATASET_MANAGEMENT = 1 << 2
    WRITE_ZEROES = 1 << 3
    FEATURE_SAVE = 1 << 4
    RESERVATIONS = 1 << 5
    TIMESTAMP = 1 << 6
    VERIFY = 1 << 7
    COPY = 1 << 8


class Sgls(IntFlag):
    """SGL Support."""

    SUPPORTED = 1 << 0
    """Supported, without alignment requirements."""
    KEYED = 1 << 2
    """Keyed data block descriptors."""
    OFFSET = 1 << 20
    """The address of a data block or (last) segment may be an offset in the capsule."""


@dataclass(frozen=True, slots=True)
class IdentifyController(Structure):
    """Identify Controller (CNS 01h)."""

    SIZE = IDENTIFY_SIZE
    vid: Annotated[int, u16(0)] = 0
    ssvid: Annotated[int, u16(2)] = 0
    sn: Annotated[str, ascii_(4, 20)] = ""
    """Serial Number."""
    mn: Annotated[str, ascii_(24, 40)] = ""
    """Model Number."""
    fr: Annotated[str, ascii_(64, 8)] = ""
    """Firmware Revision."""
    rab: Annotated[int, u8(72)] = 0
    ieee: Annotated[bytes, raw(73, 3)] = bytes(3)
    cmic: Annotated[int, u8(76)] = 0
    mdts: Annotated[int, u8(77)] = 0
    """Maximum Data Transfer Size: 2 ** MDTS pages of 2 ** (12 + CAP.MPSMIN) bytes; 0: no limit."""
    cntlid: Annotated[int, u16(78)] = 0
    ver: Annotated[int, u32(80)] = 0
    rtd3r: Annotated[int, u32(84)] = 0
    rtd3e: Annotated[int, u32(88)] = 0
    oaes: Annotated[int, u32(92)] = 0
    """Optional Asynchronous Events Supported (AsyncEvents)."""
    ctratt: Annotated[int, u32(96)] = 0
    rrls: Annotated[int, u16(100)] = 0
    cntrltype: Annotated[int, u8(111)] = 0
    """1 I/O controller, 2 discovery controller, 3 administrative controller."""
    fguid: Annotated[bytes, raw(112, 16)] = bytes(16)
    crdt1: Annotated[int, u16(128)] = 0
    crdt2: Annotated[int, u16(130)] = 0
    crdt3: Annotated[int, u16(132)] = 0
    nvmsr: Annotated[int, u8(253)] = 0
    vwci: Annotated[int, u8(254)] = 0
    mec: Annotated[int, u8(255)] = 0
    oacs: Annotated[int, u16(256)] = 0
    """Optional Admin Command Support."""
    acl: Annotated[int, u8(258)] = 0
    """Abort Command Limit, 0's based."""
    aerl: Annotated[int, u8(259)] = 0
    """Asynchronous Event Request Limit, 0's based."""
    frmw: Annotated[int, u8(260)] = 0
    lpa: Annotated[int, u8(261)] = 0
    """Log Page Attributes: 0 SMART per namespace, 1 effects log, 2 extended data, 5 LID 0."""
    elpe: Annotated[int, u8(262)] = 0
    """Error Log Page Entries, 0's based."""
    npss: Annotated[int, u8(263)] = 0
    avscc: Annotated[int, u8(264)] = 0
    apsta: Annotated[int, u8(265)] = 0
    wctemp: Annotated[int, u16(266)] = 0
    cctemp: Annotated[int, u16(268)] = 0
    mtfa: Annotated[int, u16(270)] = 0
    hmpre: Annotated[int, u32(272)] = 0
    hmmin: Annotated[int, u32(276)] = 0
    tnvmcap: Annotated[int, u128(280)] = 0
    unvmcap: Annotated[int, u128(296)] = 0
    rpmbs: Annotated[int, u32(312)] = 0
    edstt: Annotated[int, u16(316)] = 0
    dsto: Annotated[int, u8(318)] = 0
    fwug: Annotated[int, u8(319)] = 0
    kas: Annotated[int, u16(320)] = 0
    """Keep Alive granularity in 100 ms; 0: Keep Alive is not supported."""
    hctma: Annotated[int, u16(322)] = 0
    mntmt: Annotated[int, u16(324)] = 0
    mxtmt: Annotated[int, u16(326)] = 0
    sanicap: Annotated[int, u32(328)] = 0
    nsetidmax: Annotated[int, u16(338)] = 0
    endgidmax: Annotated[int, u16(340)] = 0
    anatt: Annotated[int, u8(342)] = 0
    anacap: Annotated[int, u8(343)] = 0
    anagrpmax: Annotated[int, u32(344)] = 0
    nanagrpid: Annotated[int, u32(348)] = 0
    domainid: Annotated[int, u16(356)] = 0
    sqes: Annotated[int, u8(512)] = 0
    """SQ entry size as powers of two: required (3:0) and maximum (7:4)."""
    cqes: Annotated[int, u8(513)] = 0
    maxcmd: Annotated[int, u16(514)] = 0
    """Maximum outstanding commands of a queue."""
    nn: Annotated[int, u32(516)] = 0
    """Number of Namespaces: the highest NSID."""
    oncs: Annotated[int, u16(520)] = 0
    fuses: Annotated[int, u16(522)] = 0
    fna: Annotated[int, u8(524)] = 0
    vwc: Annotated[int, u8(525)] = 0
    """Volatile Write Cache: bit 0 present; bits 2:1 Flush with NSID FFFFFFFFh (2 no, 3 yes)."""
    awun: Annotated[int, u16(526)] = 0
    """Atomic Write Unit Normal: logical blocks, 0's based."""
    awupf: Annotated[int, u16(528)] = 0
    """Atomic Write Unit Power Fail: logical blocks, 0's based."""
    icsvscc: Annotated[int, u8(530)] = 0
    nwpc: Annotated[int, u8(531)] = 0
    acwu: Annotated[int, u16(532)] = 0
    ocfs: Annotated[int, u16(534)] = 0
    """Optional Copy Formats Supported: a bit for each descriptor format."""
    sgls: Annotated[int, u32(536)] = 0
    mnan: Annotated[int, u32(540)] = 0
    """Maximum Number of Allowed Namespaces."""
    maxdna: Annotated[int, u128(544)] = 0
    maxcna: Annotated[int, u32(560)] = 0
    subnqn: Annotated[str, utf8(768, 256)] = ""
    ioccsz: Annotated[int, u32(1792)] = 0
    """I/O Queue Command Capsule Supported Size, in units of 16 bytes."""
    iorcsz: Annotated[int, u32(1796)] = 0
    """I/O Queue Response Capsule Supported Size, in units of 16 bytes."""
    icdoff: Annotated[int, u16(1800)] = 0
    """In Capsule Data Offset, in units of 16 bytes."""
    fcatt: Annotated[int, u8(1802)] = 0
    """Bit 0: static controllers."""
    msdbd: Annotated[int, u8(1803)] = 0
    """Maximum SGL Data Block Descriptors; 0: no limit."""
    ofcs: Annotated[int, u16(1804)] = 0
    """Bit 0: Disconnect is supported."""
    psd0: Annotated[bytes, raw(2048, 32)] = bytes(32)
    """Power State 0 Descriptor."""

    @property
    def in_capsule_bytes(self) -> int:
        """Maximum bytes of in-capsule data of an I/O command."""
        return max(self.ioccsz * 16 - 64 - self.icdoff * 16, 0)

    def max_transfer_bytes(self, mpsmin: int = 0) -> int | None:
        """Return the maximum bytes that one command may transfer; None: no limit."""
        return 1 << (12 + mpsmin + self.mdts) if self.mdts else None


@dataclass(frozen=True, slots=True)
class PowerState(Structure):
    """Power State Descriptor (Base 2.0, figure 276)."""

    SIZE = 32
    mp: Annotated[int, u16(0)] = 0
    """Maximum Power, in units of 0.01 W, or of 0.0001 W if bit 0 of the flags is set."""
    flags: Annotated[int, u8(3)] = 0
    """Bit 0 MXPS, bit 1 non-operational."""
    enlat: Annotated[int, u32(4)] = 0
    """Entry Latency, microseconds."""
    exlat: Annotated[int, u32(8)] = 0
    rrt: Annotated[int, u8(12)] = 0
    rrl: Annotated[int, u8(13)] = 0
    rwt: Annotated[int, u8(14)] = 0
    rwl: Annotated[int, u8(15)] = 0
    idlp: Annotated[int, u16(16)] = 0
    ips: Annotated[int, u8(18)] = 0
    actp: Annotated[int, u16(20)] = 0
    apw: Annotated[int, u8(22)] = 0

    @property
    def watts(self) -> float:
        """Maximum power in watts."""
        return self.mp / (10_000 if self.flags & 1 else 100)


@dataclass(frozen=True, slots=True)
class IdentifyNvmController(Structure):
    """Identify Controller of the NVM command set (CNS 06h, CSI 00h; NVM 1.0, figure 104)."""

    SIZE = IDENTIFY_SIZE
    vsl: Annotated[int, u8(0)] = 0
    """Verify Size Limit, like MDTS; 0: no limit."""
    wzsl: Annotated[int, u8(1)] = 0
    """Write Zeroes Size Limit, like MDTS; 0: no limit."""
    wusl: Annotated[int, u8(2)] = 0
    """Write Uncorrectable Size Limit, like MDTS; 0: no limit."""
    dmrl: Annotated[int, u8(3)] = 0
    """Dataset Management Ranges Limit; 0: no limit."""
    dmrsl: Annotated[int, u32(4)] = 0
    """Dataset Management Range Size Limit: logical blocks; 0: no limit."""
    dmsl: Annotated[int, u64(8)] = 0


def encode_namespace_list(nsids: Iterable[int], above: int = 0) -> bytes:
    """Encode the NSIDs greater than above, ascending, at most 1024, to 4096 bytes (CNS 02h)."""
    chosen = sorted(nsid for nsid in nsids if nsid > above)[:1024]
    return struct.pack(f"<{len(chosen)}I", *chosen).ljust(IDENTIFY_SIZE, b"\0")


def decode_namespace_list(data: bytes) -> list[int]:
    """Return the NSIDs up to the first zero."""
    nsids: list[int] = []
    for (nsid,) in struct.iter_unpack("<I", data[: len(data) & ~3]):
        if nsid == 0:
            break
        nsids.append(int(nsid))
    return nsids


def encode_controller_list(cntlids: Iterable[int], least: int = 0) -> bytes:
    """Encode a count and the identifiers from least on, ascending, to 4096 bytes (CNS 12h, 13h)."""
    chosen = sorted(cntlid for cntlid in cntlids if cntlid >= least)[:2047]
    return struct.pack(f"<H{len(chosen)}H", len(chosen), *chosen).ljust(IDENTIFY_SIZE, b"\0")


def decode_controller_list(data: bytes) -> list[int]:
    """Return the controller identifiers; raise DecodeError if there are fewer than the count."""
    if len(data) < 2 or len(data) < 2 + 2 * int.from_bytes(data[:2], "little"):
        raise DecodeError("controller list is truncated")
    count = int.from_bytes(data[:2], "little")
    return list(struct.unpack_from(f"<{count}H", data, 2))


def encode_command_sets(vectors: Iterable[int]) -> bytes:
    """Encode the combinations of command sets that are supported to 4096 bytes (CNS 1Ch)."""
    words = list(vectors)
    return struct.pack(f"<{len(words)}Q", *words).ljust(IDENTIFY_SIZE, b"\0")


def decode_command_sets(data: bytes) -> list[int]:
    """Return the combinations up to the first empty one, each a bit mask of CSIs."""
    vectors: list[int] = []
    for (vector,) in struct.iter_unpack("<Q", data[: len(data) & ~7]):
        if vector == 0:
            break
        vectors.append(int(vector))
    return vectors
