# SPDX-License-Identifier: BSD-3-Clause
"""Reservations: commands (Base 2.0, 7.2 to 7.6), report and notification log page (5.16.1.24)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Annotated

from nvmf.spec.layout import Register, Structure, bits, raw, u8, u16, u32, u64
from nvmf.spec.status import DecodeError

HOST_ID_BYTES = 16


class ReservationType(IntEnum):
    """RTYPE: which access hosts other than the holder have (figure 437)."""

    WRITE_EXCLUSIVE = 1
    EXCLUSIVE_ACCESS = 2
    WRITE_EXCLUSIVE_REGISTRANTS_ONLY = 3
    EXCLUSIVE_ACCESS_REGISTRANTS_ONLY = 4
    WRITE_EXCLUSIVE_ALL_REGISTRANTS = 5
    EXCLUSIVE_ACCESS_ALL_REGISTRANTS = 6

    @property
    def all_registrants(self) -> bool:
        """Whether every registrant is a holder."""
        return self >= ReservationType.WRITE_EXCLUSIVE_ALL_REGISTRANTS

    @property
    def for_registrants(self) -> bool:
        """Whether registrants have the holder's rights."""
        return self >= ReservationType.WRITE_EXCLUSIVE_REGISTRANTS_ONLY

    @property
    def excludes_reads(self) -> bool:
        """Whether reads, too, are denied to hosts without rights."""
        return self % 2 == 0


class RegisterAction(IntEnum):
    """RREGA."""

    REGISTER = 0
    UNREGISTER = 1
    REPLACE = 2


class AcquireAction(IntEnum):
    """RACQA."""

    ACQUIRE = 0
    PREEMPT = 1
    PREEMPT_AND_ABORT = 2


class ReleaseAction(IntEnum):
    """RRELA."""

    RELEASE = 0
    CLEAR = 1


class PersistenceChange(IntEnum):
    """CPTPL: Change Persist Through Power Loss State."""

    NONE = 0
    CLEAR = 2
    SET = 3


@dataclass(frozen=True, slots=True)
class RegisterDw10(Register):
    """Dword 10 of Reservation Register."""

    rrega: Annotated[int, bits(0, 2)] = 0
    iekey: Annotated[int, bits(3)] = 0
    """Ignore Existing Key."""
    cptpl: Annotated[int, bits(30, 31)] = 0


@dataclass(frozen=True, slots=True)
class AcquireDw10(Register):
    """Dword 10 of Reservation Acquire."""

    racqa: Annotated[int, bits(0, 2)] = 0
    iekey: Annotated[int, bits(3)] = 0
    rtype: Annotated[int, bits(8, 15)] = 0


@dataclass(frozen=True, slots=True)
class ReleaseDw10(Register):
    """Dword 10 of Reservation Release."""

    rrela: Annotated[int, bits(0, 2)] = 0
    iekey: Annotated[int, bits(3)] = 0
    rtype: Annotated[int, bits(8, 15)] = 0


class Rescap(IntFlag):
    """Reservation Capabilities of a namespace."""

    PTPL = 1 << 0
    """Persist Through Power Loss."""
    ALL_TYPES = 0x3F << 1
    IEKEY = 1 << 7
    """Ignore Existing Key is as defined in revision 1.3 and later."""


@dataclass(frozen=True, slots=True)
class RegistrantEntry(Structure):
    """Registered controller, extended (figure 450)."""

    SIZE = 64
    cntlid: Annotated[int, u16(0)] = 0xFFFF
    """FFFFh: the host has no controller at present."""
    rcsts: Annotated[int, u8(2)] = 0
    """Bit 0: the host holds the reservation."""
    rkey: Annotated[int, u64(8)] = 0
    hostid: Annotated[bytes, raw(16, HOST_ID_BYTES)] = bytes(HOST_ID_BYTES)


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """Reservation status, extended (figure 449): the data of Reservation Report."""

    gen: int
    """Generation: counts changes to registrations, 32 bits."""
    rtype: int
    """0: no reservation."""
    ptpls: int
    """Whether the reservation persists through power loss."""
    registrants: tuple[RegistrantEntry, ...] = ()

    _HEAD = struct.Struct("<IBHxxB54x")

    def encode(self) -> bytes:
        """Encode to 64 bytes, plus 64 for each registered controller."""
        count = min(len(self.registrants), 0xFFFF)
        head = self._HEAD.pack(self.gen & 0xFFFFFFFF, self.rtype, count, self.ptpls)
        return head + b"".join(entry.encode() for entry in self.registrants[:count])

    @classmethod
    def decode(cls, data: bytes) -> ReservationStatus:
        """Decode the part that was transferred; raise DecodeError if it ends before the entries."""
        if len(data) < cls._HEAD.size:
            raise DecodeError(f"reservation status of {len(data)} bytes")
        gen, rtype, count, ptpls = cls._HEAD.unpack_from(data)
        size = RegistrantEntry.SIZE
        there = min(count, (len(data) - cls._HEAD.size) // size)
        starts = (cls._HEAD.size + index * size for index in range(there))
        entries = tuple(RegistrantEntry.decode(data[at : at + size]) for at in starts)
        return cls(gen, rtype, ptpls, entries)


class NotificationType(IntEnum):
    """Reservation Notification Log Page Type (figure 256)."""

    EMPTY = 0
    REGISTRATION_PREEMPTED = 1
    RESERVATION_RELEASED = 2
    RESERVATION_PREEMPTED = 3


@dataclass(frozen=True, slots=True)
class NotificationPage(Structure):
    """Reservation Notification log page (figure 256)."""

    SIZE = 64
    count: Annotated[int, u64(0)] = 0
    """Number of this notification on its controller, from 1; 0: there is no notification."""
    type: Annotated[int, u8(8)] = 0
    available: Annotated[int, u8(9)] = 0
    """Number of further pages to read, at most 255."""
    nsid: Annotated[int, u32(12)] = 0


def keys(data: bytes, count: int) -> tuple[int, ...]:
    """Return the first count keys of a command's data; raise DecodeError if there are fewer.

    The data may be longer: Linux sends 16 bytes with every such command.
    """
    if len(data) < 8 * count:
        raise DecodeError(f"{len(data)} bytes of data; {count} keys of 8 bytes expected")
    return struct.unpack_from(f"<{count}Q", data)


def encode_keys(values: Iterable[int]) -> bytes:
    """Encode keys as the data of a command; raise ValueError for a number that is no key."""
    encoded = bytearray()
    for key in values:
        if not 0 <= key < 1 << 64:
            raise ValueError(f"a reservation key has 64 bits: {key} does not fit")
        encoded += key.to_bytes(8, "little")
    return bytes(encoded)
