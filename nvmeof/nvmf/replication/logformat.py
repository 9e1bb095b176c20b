# SPDX-License-Identifier: BSD-3-Clause
"""The bytes of a Log on its replicas: two header slots, a tail word if it has one, then a ring of
frames.

nvmeof/docs/replication.md has the layout, and what a reader does with each kind of damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nvmf.engine import crc32c
from nvmf.replication.machine import Damaged

MAGIC = b"NVMFLOG\0"
VERSION, VERSION_TAIL = 1, 2
"""The version of the format without a tail word, and of that with one."""
SLOT = 4096
"""Bytes from one header slot to the next."""
START = 2 * SLOT
"""The offset of the ring; of the tail word, if there is one: then the ring is one slot further."""
TAIL = START
LEAST = 64
"""Minimum number of shortest frames for which a ring has room."""
RESERVE = 16
"""Number of shortest frames that are reserved for the frames with which an epoch begins."""
MAX_FRAME = 1 << 20
WINDOW = 4 << 20
"""At most so many bytes of frames are written that are not acknowledged yet."""

_HEADER = struct.Struct("<8sHHHH16sIIQQQQQI")
_FRAME = struct.Struct("<4sHHIIQQQII")
_RECORD = struct.Struct("<II")
FRAME_MAGIC = b"NLF1"
FRAME_HEAD = 64
RECORD_HEAD = _RECORD.size
DATA, SKIP, EPOCH = 0, 1, 2
"""Kinds of frames: records, the unused end of the ring, the begin of an epoch."""


@dataclass(frozen=True)
class Header:
    """The content of a header slot."""

    uuid: bytes
    legs: int
    quorum: int
    index: int
    """Index of this replica."""
    unit: int
    """Frames are multiples of it, in bytes."""
    capacity: int
    """Bytes of the ring."""
    epoch: int = 0
    """Epoch of the last writer that claimed the log."""
    seq: int = 0
    """Sequence number of the header: the valid slot with the higher one is used."""
    head: int = 0
    """The LSN of the oldest frame."""
    head_epoch: int = 0
    """The epoch of the frame before it."""
    head_prev: int = 0
    """The checksum of the frame before it."""
    tail: bool = False
    """The replicas have a tail word."""

    @property
    def start(self) -> int:
        """The offset of the ring."""
        return TAIL + SLOT if self.tail else START

    def encode(self) -> bytes:
        """Return the slot, a whole number of units."""
        body = _HEADER.pack(
            MAGIC,
            VERSION_TAIL if self.tail else VERSION,
            self.legs,
            self.quorum,
            self.index,
            self.uuid,
            self.unit,
            0,
            self.capacity,
            self.epoch,
            self.seq,
            self.head,
            self.head_epoch,
            self.head_prev,
        )
        slot = body + crc32c(body).to_bytes(4, "little")
        return slot.ljust(-(-len(slot) // self.unit) * self.unit, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> Header | None:
        """Return the header in a slot; None if it is not valid."""
        body, total = data[: _HEADER.size], data[_HEADER.size : _HEADER.size + 4]
        if body[:8] != MAGIC or crc32c(body).to_bytes(4, "little") != total:
            return None
        fields = _HEADER.unpack(body)
        if fields[1] not in (VERSION, VERSION_TAIL):
            raise Damaged(
                f"it has version {fields[1]} of the log's format, not {VERSION} or {VERSION_TAIL}"
            )
        _, _, legs, quorum, index, uuid, unit, _, capacity, epoch, seq, head, last, prev = fields
        has_tail = fields[1] == VERSION_TAIL
        return cls(
            uuid, legs, quorum, index, unit, capacity, epoch, seq, head, last, prev, has_tail
        )

    @classmethod
    def best(cls, slots: Sequence[bytes]) -> Header | None:
        """Return the newest valid header of a replica's slots."""
        found = [header for header in map(cls.decode, slots) if header]
        return max(found, key=lambda header: header.seq, default=None)

    def same_log(self, other: Header) -> bool:
        """Whether other is a header of the same replica set, whatever its index and state."""
        mine = (self.uuid, self.legs, self.quorum, self.unit, self.capacity, self.tail)
        return mine == (
            *(other.uuid, other.legs, other.quorum, other.unit, other.capacity),
            other.tail,
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """The head of a frame."""

    lsn: int
    length: int
    """Bytes with padding."""
    epoch: int
    crc: int
    prev: int
    """The crc of the frame before it."""
    kind: int = DATA
    used: int = 0
    """Bytes of its records."""
    committed: int = 0
    """All before this LSN was acknowledged when it was written."""

    @property
    def end(self) -> int:
        """The LSN of the frame after it."""
        return self.lsn + self.length


def encode_frame(
    uuid: bytes, frame: Frame, records: bytes, *, padded: bool = True
) -> tuple[Frame, bytes]:
    """Return the frame with its checksum, and its bytes (a skip has only its head)."""
    seed = crc32c(uuid)
    head = _FRAME.pack(
        FRAME_MAGIC,
        frame.kind,
        0,
        frame.length,
        len(records),
        frame.lsn,
        frame.epoch,
        frame.committed,
        frame.prev,
        0,
    ).ljust(FRAME_HEAD, b"\0")
    crc = crc32c(records, crc32c(head, seed))
    head = head[: _FRAME.size - 4] + crc.to_bytes(4, "little") + head[_FRAME.size :]
    data = head + records
    if padded:
        data = data.ljust(frame.length, b"\0")
    return replace(frame, crc=crc, used=len(records)), data


def decode_head(data: bytes, lsn: int) -> Frame | None:
    """Return the frame that may begin data: its checksum is not checked yet."""
    if len(data) < FRAME_HEAD or data[:4] != FRAME_MAGIC:
        return None
    _, kind, _, length, used, at, epoch, committed, prev, crc = _FRAME.unpack_from(data)
    if at != lsn or kind > EPOCH or not length:
        return None
    if kind != SKIP and (length > MAX_FRAME or FRAME_HEAD + used > length):
        return None
    return Frame(lsn, length, epoch, crc, prev, kind, used, committed)


def whole(uuid: bytes, frame: Frame, data: bytes) -> bool:
    """Whether the bytes of a frame have its checksum."""
    if len(data) < FRAME_HEAD + frame.used:
        return False
    at = _FRAME.size - 4
    head = data[:at] + bytes(4) + data[_FRAME.size : FRAME_HEAD]
    records = data[FRAME_HEAD : FRAME_HEAD + frame.used]
    return crc32c(records, crc32c(head, crc32c(uuid))) == frame.crc


_LSN_BITS = 48
_LSN = (1 << _LSN_BITS) - 1


def encode_tail(frame: Frame, unit: int) -> bytes:
    """Return the tail word of a replica that has a frame and all before it."""
    return (frame.epoch << _LSN_BITS & (1 << 64) - 1 | frame.end // unit & _LSN).to_bytes(
        8, "little"
    )


def decode_tail(data: bytes, header: Header) -> tuple[int, int] | None:
    """Return the epoch and the end of the frame of a tail word; None if it says nothing of the
    frames from the head on.

    header: with an epoch and a head that are not before those of the word's replica.
    """
    word = int.from_bytes(data[:8], "little")
    units = (word & _LSN) - header.head // header.unit & _LSN
    if not word or units * header.unit > header.capacity:
        return None
    epoch = header.epoch - (header.epoch - (word >> _LSN_BITS) & 0xFFFF)
    return epoch, header.head + units * header.unit


def encode_record(data: bytes) -> bytes:
    """Return a record as it is in a frame."""
    return _RECORD.pack(len(data), crc32c(data)) + data


def records(frame: Frame, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the (LSN, content) of each record of a whole frame."""
    at, end = FRAME_HEAD, FRAME_HEAD + frame.used
    while at < end:
        length, crc = _RECORD.unpack_from(data, at)
        content = data[at + RECORD_HEAD : at + RECORD_HEAD + length]
        if at + RECORD_HEAD + length > end or crc32c(content) != crc:
            raise Damaged(f"the record at LSN {frame.lsn + at} does not have its checksum")
        yield frame.lsn + at, content
        at += RECORD_HEAD + length
