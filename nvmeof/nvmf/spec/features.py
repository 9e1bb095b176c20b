# SPDX-License-Identifier: BSD-3-Clause
"""Values and data of features (Base 2.0, 5.27.1), and of asynchronous events (5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Annotated

from nvmf.spec.layout import Register, Structure, bits, raw, u8


@dataclass(frozen=True, slots=True)
class NumberOfQueues(Register):
    """Number of Queues: dword 11 of Set Features and the result; both counts are 0's based."""

    nsq: Annotated[int, bits(0, 15)] = 0
    """I/O submission queues."""
    ncq: Annotated[int, bits(16, 31)] = 0
    """I/O completion queues."""


class AsyncEvents(IntFlag):
    """Asynchronous Event Configuration, and OAES of Identify Controller."""

    SMART_SPARE = 1 << 0
    SMART_TEMPERATURE = 1 << 1
    SMART_DEGRADED = 1 << 2
    SMART_READ_ONLY = 1 << 3
    SMART_VOLATILE_MEMORY = 1 << 4
    NAMESPACE_ATTRIBUTE = 1 << 8
    FIRMWARE_ACTIVATION = 1 << 9
    ANA_CHANGE = 1 << 11
    DISCOVERY_CHANGE = 1 << 31


class WriteProtection(IntEnum):
    """Write Protection State of a namespace: dword 11, bits 2:0, and the result (5.27.1.30)."""

    NONE = 0
    PROTECTED = 1
    UNTIL_POWER_CYCLE = 2
    PERMANENT = 3


class EventType(IntEnum):
    """Type of an asynchronous event."""

    ERROR = 0
    SMART = 1
    NOTICE = 2
    IO_COMMAND_SET = 6
    VENDOR = 7


class Notice(IntEnum):
    """Information of a notice."""

    NAMESPACE_ATTRIBUTE_CHANGED = 0x00
    FIRMWARE_ACTIVATION_STARTING = 0x01
    ANA_CHANGE = 0x03
    DISCOVERY_LOG_CHANGE = 0xF0


@dataclass(frozen=True, slots=True)
class AsyncEvent(Register):
    """Dword 0 of a completed Asynchronous Event Request (figure 146)."""

    type: Annotated[int, bits(0, 2)] = 0
    info: Annotated[int, bits(8, 15)] = 0
    lid: Annotated[int, bits(16, 23)] = 0
    """The associated log page; reading it with RAE 0 allows the next event of this kind."""


@dataclass(frozen=True, slots=True)
class HostBehavior(Structure):
    """Host Behavior Support (figure 347)."""

    SIZE = 512
    acre: Annotated[int, u8(0)] = 0
    """Advanced Command Retry Enable."""
    etdas: Annotated[int, u8(1)] = 0
    """Extended Telemetry Data Area 4 Supported."""
    lbafee: Annotated[int, u8(2)] = 0
    """LBA Format Extension Enable."""


@dataclass(frozen=True, slots=True)
class Timestamp(Structure):
    """Timestamp (figures 334 and 335)."""

    SIZE = 8
    milliseconds: Annotated[bytes, raw(0, 6)] = bytes(6)
    """Since the Unix epoch, 48 bits little-endian."""
    attributes: Annotated[int, u8(6)] = 0
    """Bit 0: counting stopped for a while; bits 3:1 origin: 0 controller reset, 1 Set Features."""

    @property
    def value(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int.from_bytes(self.milliseconds, "little")
