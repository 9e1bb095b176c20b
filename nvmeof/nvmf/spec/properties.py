# SPDX-License-Identifier: BSD-3-Clause
"""Controller properties (Base 2.0, 3.1.3) and the bit fields in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from nvmf.spec.layout import Register, bits


class Property(IntEnum):
    """Offsets of the properties that exist over fabrics."""

    CAP = 0x00
    VS = 0x08
    CC = 0x14
    CSTS = 0x1C
    NSSR = 0x20
    CRTO = 0x68


PROPERTY_SIZE = {
    Property.CAP: 8,
    Property.VS: 4,
    Property.CC: 4,
    Property.CSTS: 4,
    Property.NSSR: 4,
    Property.CRTO: 4,
}
"""Bytes of each property: a Property Get or Set of a different size is rejected."""

NVME_1_3 = 0x010300
NVME_1_4 = 0x010400
NVME_2_0 = 0x020000


@dataclass(frozen=True, slots=True)
class Cap(Register):
    """Controller Capabilities (figure 36)."""

    mqes: Annotated[int, bits(0, 15)] = 0
    """Maximum Queue Entries Supported, 0's based."""
    cqr: Annotated[int, bits(16)] = 0
    """Contiguous Queues Required."""
    ams: Annotated[int, bits(17, 18)] = 0
    to: Annotated[int, bits(24, 31)] = 0
    """Timeout for RDY to change, in 500 ms."""
    dstrd: Annotated[int, bits(32, 35)] = 0
    nssrs: Annotated[int, bits(36)] = 0
    css_nvm: Annotated[int, bits(37)] = 0
    """The NVM command set."""
    css_sets: Annotated[int, bits(43)] = 0
    """One or more I/O command sets (Identify CNS 1Ch)."""
    css_none: Annotated[int, bits(44)] = 0
    """No I/O command set."""
    mpsmin: Annotated[int, bits(48, 51)] = 0
    """Smallest memory page size: 2 ** (12 + MPSMIN) bytes."""
    mpsmax: Annotated[int, bits(52, 55)] = 0
    nsss: Annotated[int, bits(58)] = 0
    crwms: Annotated[int, bits(59)] = 0
    """Controller Ready With Media Support: the CRTO property exists."""
    crims: Annotated[int, bits(60)] = 0


@dataclass(frozen=True, slots=True)
class Version(Register):
    """Version (figure 37)."""

    tertiary: Annotated[int, bits(0, 7)] = 0
    minor: Annotated[int, bits(8, 15)] = 0
    major: Annotated[int, bits(16, 31)] = 0

    def __str__(self) -> str:
        tail = f".{self.tertiary}" if self.tertiary else ""
        return f"{self.major}.{self.minor}{tail}"


@dataclass(frozen=True, slots=True)
class Cc(Register):
    """Controller Configuration (figure 46)."""

    en: Annotated[int, bits(0)] = 0
    """Enable."""
    css: Annotated[int, bits(4, 6)] = 0
    """0: the NVM command set; 6: all supported I/O command sets; 7: admin only."""
    mps: Annotated[int, bits(7, 10)] = 0
    """Memory page size: 2 ** (12 + MPS) bytes."""
    ams: Annotated[int, bits(11, 13)] = 0
    shn: Annotated[int, bits(14, 15)] = 0
    """Shutdown notification: 0 none, 1 normal, 2 abrupt."""
    iosqes: Annotated[int, bits(16, 19)] = 0
    """I/O SQ entry size, as a power of two: 6 (64 bytes)."""
    iocqes: Annotated[int, bits(20, 23)] = 0
    """I/O CQ entry size, as a power of two: 4 (16 bytes)."""
    crime: Annotated[int, bits(24)] = 0
    """Controller Ready Independent of Media Enable."""


@dataclass(frozen=True, slots=True)
class Csts(Register):
    """Controller Status (figure 47)."""

    rdy: Annotated[int, bits(0)] = 0
    """Ready."""
    cfs: Annotated[int, bits(1)] = 0
    """Controller Fatal Status."""
    shst: Annotated[int, bits(2, 3)] = 0
    """Shutdown status: 0 none, 1 occurring, 2 complete."""
    nssro: Annotated[int, bits(4)] = 0
    pp: Annotated[int, bits(5)] = 0


@dataclass(frozen=True, slots=True)
class Crto(Register):
    """Controller Ready Timeouts (figure 62)."""

    crwmt: Annotated[int, bits(0, 15)] = 0
    """Controller Ready With Media timeout, in 500 ms."""
    crimt: Annotated[int, bits(16, 31)] = 0
    """Controller Ready Independent of Media timeout, in 500 ms."""


def ready_timeout_seconds(cap: Cap, crto: Crto | None = None) -> float:
    """Return how long a host waits for CSTS.RDY to follow CC.EN."""
    units = crto.crwmt if crto is not None and cap.crwms else cap.to
    return max(units, 1) * 0.5
