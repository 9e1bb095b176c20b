# SPDX-License-Identifier: BSD-3-Clause
"""The bytes of a Mirror on its replicas: two header slots, the pages of the dirty map, the data.

nvmeof/docs/replication.md has the layout, and what a reader does with each kind of damage.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nvmf.engine import crc32c
from nvmf.replication.machine import Damaged

MAGIC = b"NVMFMIR\0"
VERSION = 2
NOBODY = 0xFFFF
"""Value of Geometry.gone: the last change has not removed a replica."""
SLOT = 4096
START = 2 * SLOT
"""The offset of the map."""
BLANK = 1 << 20
"""Bytes at the start of a blank replica, all zeroes: file systems, such as btrfs (64 KiB), ZFS and
ISO 9660, leave the first ones free.  A replica with fewer bytes is blank as a whole.
"""
MOST = 15
"""Replicas of a mirror: a region's entry has a bit for each, and one for open."""
OPEN = 1 << 15
"""Bit of an entry: writes may be outstanding, so that replicas may differ in unacknowledged data.
The other bits name replicas that may lack acknowledged writes."""

_FIRST = struct.Struct(f"<8sHHHH16sIIQQQ{MOST}I")
"""The header of version 1, whose members were never changed."""
_HEADER = struct.Struct(f"<8sHHHH16sIIQQQ{MOST}IQQHH")
_PAGE = struct.Struct("<4sIIIQQ")
PAGE_MAGIC = b"NMP1"


@dataclass(frozen=True)
class Geometry:
    """The properties of a mirror that are constant while it is open."""

    uuid: bytes
    legs: int
    quorum: int
    block: int
    """Bytes of a block, which a replica writes whole or not at all."""
    region: int
    """Bytes that one entry of the map stands for."""
    size: int
    """Bytes of data."""
    term: int = 0
    """An epoch: of two headers of a mirror, the one with the higher term has its members."""
    before: int = 0
    """The term before the last change of the members."""
    gone: int = NOBODY
    """The index, in that term, of the replica that this change has removed."""

    @property
    def regions(self) -> int:
        """Entries of the map."""
        return -(-self.size // self.region)

    @property
    def per_page(self) -> int:
        """Entries of a page; a page is a block."""
        return (self.block - _PAGE.size) // 2

    @property
    def pages(self) -> int:
        """Pages of the map."""
        return -(-self.regions // self.per_page)

    @cached_property
    def start(self) -> int:
        """The offset of the data."""
        return -(-(START + self.pages * self.block) // SLOT) * SLOT

    @classmethod
    def fit(
        cls, uuid: bytes, legs: int, quorum: int, block: int, region: int, room: int
    ) -> Geometry:
        """Return the largest mirror whose replicas have room bytes each."""
        size = (room - START) // block * block
        while size > 0:
            found = cls(uuid, legs, quorum, block, region, size)
            if found.start + size <= room:
                return found
            size -= found.start + size - room
            size = size // block * block
        raise ValueError(f"{room} bytes are too few for a mirror")


def _checked(form: struct.Struct, data: bytes) -> bool:
    """Whether the checksum of a header of this form is right."""
    total = crc32c(data[: form.size]).to_bytes(4, "little")
    return total == data[form.size : form.size + 4]


@dataclass(frozen=True)
class Header:
    """The content of a header slot."""

    geometry: Geometry
    index: int
    """Index of this replica."""
    epoch: int = 0
    """Epoch of the last writer that claimed the mirror."""
    seq: int = 0
    """The valid slot with the higher one counts."""
    joins: tuple[int, ...] = ()
    """How often each replica joined. A replica with a lower number than the others have for it
    was set back, as by an old snapshot."""

    @property
    def fresh(self) -> bool:
        """Whether the replica was made a member later, and has not been taken in yet."""
        return bool(self.geometry.term) and not self.joins[self.index]

    def encode(self) -> bytes:
        """Return the slot, a whole number of blocks."""
        shape = self.geometry
        body = _HEADER.pack(
            MAGIC,
            VERSION,
            shape.legs,
            shape.quorum,
            self.index,
            shape.uuid,
            shape.block,
            shape.region,
            shape.size,
            self.epoch,
            self.seq,
            *self.joins,
            *(0,) * (MOST - len(self.joins)),
            shape.term,
            shape.before,
            shape.gone,
            0,
        )
        slot = body + crc32c(body).to_bytes(4, "little")
        return slot.ljust(-(-len(slot) // shape.block) * shape.block, b"\0")

    @classmethod
    def decode(cls, data: bytes) -> Header | None:
        """Return the header in a slot; None if it is not valid."""
        if data[:8] != MAGIC:
            return None
        valid = next((form for form in (_HEADER, _FIRST) if _checked(form, data)), None)
        if valid is None:
            return None
        _, version, legs, quorum, index, uuid, block, region, size, epoch, seq, *rest = (
            valid.unpack_from(data)
        )
        if version != (VERSION if valid is _HEADER else 1):
            raise Damaged(f"it has version {version} of the mirror's format, not {VERSION}")
        if not 1 <= legs <= MOST or index >= legs:
            raise Damaged(f"its header says that it is replica {index} of {legs}")
        shape = Geometry(uuid, legs, quorum, block, region, size, *rest[MOST : MOST + 3])
        return cls(shape, index, epoch, seq, tuple(rest[:legs]))

    @classmethod
    def best(cls, slots: Sequence[bytes]) -> Header | None:
        """Return the newest valid header of a replica's slots."""
        found = [header for header in map(cls.decode, slots) if header]
        return max(found, key=lambda header: header.seq, default=None)

    def at(self, index: int) -> Header:
        """Return the same header for a different replica."""
        return replace(self, index=index)


@dataclass(frozen=True)
class Page:
    """A page of the map."""

    index: int
    epoch: int
    seq: int
    entries: tuple[int, ...]

    @property
    def version(self) -> tuple[int, int]:
        """Return the version: of two copies of a page, that with the higher one is used."""
        return self.epoch, self.seq

    def encode(self, shape: Geometry) -> bytes:
        """Return the block."""
        body = struct.pack(f"<{len(self.entries)}H", *self.entries)
        body = body.ljust(shape.block - _PAGE.size, b"\0")
        head = (PAGE_MAGIC, self.index, 0, self.epoch, self.seq)
        seed = crc32c(shape.uuid)
        crc = crc32c(_PAGE.pack(head[0], 0, *head[1:]) + body, seed)
        return _PAGE.pack(head[0], crc, *head[1:]) + body

    @classmethod
    def decode(cls, shape: Geometry, index: int, data: bytes) -> Page:
        """Return the page in a block, which is empty if the block was never written."""
        if not any(data):
            return cls(index, 0, 0, (0,) * shape.per_page)
        magic, crc, at, _, epoch, seq = _PAGE.unpack_from(data)
        plain = data[:4] + bytes(4) + data[8:]
        if magic != PAGE_MAGIC or at != index or crc32c(plain, crc32c(shape.uuid)) != crc:
            raise Damaged(f"page {index} of its dirty map does not have its checksum")
        entries = struct.unpack_from(f"<{shape.per_page}H", data, _PAGE.size)
        return cls(index, epoch, seq, entries)
