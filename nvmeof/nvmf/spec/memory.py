# SPDX-License-Identifier: BSD-3-Clause
"""The remote memory protocol, version 1: structures of nvmeof/docs/remote-memory.md.

It is a protocol of this project, not of NVMe.  PERSIST and ECHO, and their answers, are in the
engine (c/memory/wire.h).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Annotated

from nvmf.spec.layout import Structure, raw, u8, u16, u32, u64, utf8

RECFMT = 0x4D52
"""The first two bytes of private data, "RM"; NVMe-oF has 0 there."""
VERSION = 1


class Refusal(IntEnum):
    """Why a connection request is rejected."""

    VERSION = 1
    NO_MEMORY = 2
    RESOURCES = 3
    MALFORMED = 4


class Status(IntEnum):
    """Status of OPENED."""

    OK = 0
    NOT_ALLOWED = 16
    NO_SUCH_RANGE = 17
    NOT_MEMORY = 18
    CONFLICT = 19
    READ_ONLY = 20
    MALFORMED = 21
    RESOURCES = 22
    AUTHENTICATION = 23


class Access(IntEnum):
    """The kind of request in OPEN."""

    READ = 1
    READ_WRITE = 2


class Platform(IntFlag):
    """The properties of the target's platform, as far as it knows them."""

    MEDIA = 1
    """Bytes that are persistent survive a power failure."""
    PLACED = 2
    """The bytes of an RDMA WRITE are persistent before an RDMA READ behind it is answered."""
    PERSISTS = 4
    """PERSIST makes a range persistent."""
    FLUSHED = 8
    """An RDMA FLUSH of persistent type makes its range persistent before it is answered."""
    ATOMIC = 16
    """An ATOMIC WRITE is carried out as a whole, and after the FLUSHes before it."""


OPEN, OPENED, AUTH = 1, 2, 7
"""Types of messages."""


@dataclass(frozen=True, slots=True)
class Request(Structure):
    """Private data of a connection request; of its answer, with the depth accepted."""

    SIZE = 16
    recfmt: Annotated[int, u16(0)] = RECFMT
    version: Annotated[int, u16(2)] = VERSION
    refusal: Annotated[int, u16(4)] = 0
    """In a reject: why."""
    depth: Annotated[int, u16(6)] = 0
    """Messages that the host may have outstanding: wanted, then accepted."""


CAN_AUTHENTICATE = 1
"""In OPEN: the host has a key, and authenticates if the target asks for it."""
AUTH_HEADER = bytes((AUTH, 0, 0, 0, 0, 0, 0, 0))
"""AUTH, to both sides: this, and a message of DH-HMAC-CHAP, or nothing."""


@dataclass(frozen=True, slots=True)
class Open(Structure):
    """OPEN, from the host."""

    SIZE = 536
    type: Annotated[int, u8(0)] = OPEN
    access: Annotated[int, u8(1)] = Access.READ_WRITE
    flags: Annotated[int, u16(2)] = 0
    """CAN_AUTHENTICATE."""
    nsid: Annotated[int, u32(4)] = 1
    hostid: Annotated[bytes, raw(8, 16)] = bytes(16)
    subnqn: Annotated[str, utf8(24, 256)] = ""
    hostnqn: Annotated[str, utf8(280, 256)] = ""


@dataclass(frozen=True, slots=True)
class Opened(Structure):
    """OPENED, from the target: the key, or why not."""

    SIZE = 288
    type: Annotated[int, u8(0)] = OPENED
    status: Annotated[int, u8(1)] = 0
    platform: Annotated[int, u16(2)] = 0
    key: Annotated[int, u32(4)] = 0
    address: Annotated[int, u64(8)] = 0
    length: Annotated[int, u64(16)] = 0
    text: Annotated[str, utf8(32, 256)] = ""
    """A sentence, if the status is not 0."""
