# SPDX-License-Identifier: BSD-3-Clause
"""Capture files: pcap (also with nanoseconds) and pcapng, of either byte order.

The first damaged byte ends the reading: everything before it is returned, and a sentence says
where it is.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from nvmf.capture.errors import CaptureError

FILE_MOST = 2 << 30
"""Maximum bytes of a file, uncompressed."""
_PACKET_MOST = 1 << 20
_INTERFACES_MOST = 4096
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""Byte order, and nanoseconds of a unit of the fraction."""
_SECTION, _INTERFACE, _SIMPLE, _STATISTICS, _ENHANCED = 0x0A0D0D0A, 1, 3, 5, 6
_COMMENT = 1
_SYNTHESISED = b"synthesised"
"""The beginning of the comments of packets that a process has made of its work."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of a file."""

    number: int
    """From 1, as in Wireshark."""
    when: int
    """Nanoseconds since the epoch."""
    link: int
    """Link type (LINKTYPE_*) of its interface."""
    data: bytes
    """The captured bytes."""
    length: int
    """Bytes on the wire: at least as many as were captured."""
    synthesised: bool = False
    """Whether the packet was never on a wire: the process that recorded it says so."""


@dataclass(slots=True)
class File:
    """The packets of a file, and the damage found while reading them."""

    data: bytes = field(repr=False)
    damage: str = ""
    """The sentence about the first damaged byte; "" if the file is whole."""
    dropped: int = 0
    """Packets that the capturing program dropped, as far as it reports them."""

    def packets(self) -> Iterator[Packet]:
        """Yield the packets, once; CaptureError if it is not a capture file."""
        if self.data[:4] in _PCAP:
            yield from self._pcap()
        elif self.data[:4] == b"\x0a\x0d\x0d\x0a":
            yield from self._pcapng()
        else:
            raise CaptureError(
                "the file is neither pcap nor pcapng: its first bytes are "
                f"{self.data[:4].hex() or 'missing'}"
            )

    def _end(self, sentence: str) -> None:
        """Note the first damage."""
        self.damage = self.damage or sentence

    def _pcap(self) -> Iterator[Packet]:
        order, unit = _PCAP[self.data[:4]]
        if len(self.data) < 24:
            return self._end(f"the pcap header is cut off after {len(self.data)} of 24 bytes")
        link = struct.unpack_from(f"{order}I", self.data, 20)[0] & 0x0FFFFFFF
        at, number = 24, 0
        while at < len(self.data):
            if len(self.data) - at < 16:
                return self._end(f"the file ends in the header of a packet, at byte {at}")
            seconds, part, kept, length = struct.unpack_from(f"{order}4I", self.data, at)
            if kept > _PACKET_MOST:
                return self._end(f"a packet at byte {at} claims {kept} bytes")
            if len(self.data) - at - 16 < kept:
                return self._end(f"the file ends in a packet, at byte {at}")
            number += 1
            data = self.data[at + 16 : at + 16 + kept]
            yield Packet(number, seconds * 10**9 + part * unit, link, data, max(length, kept))
            at += 16 + kept

    def _pcapng(self) -> Iterator[Packet]:
        order, at, number = "<", 0, 0
        interfaces: list[tuple[int, int, int]] = []
        drops: dict[int, int] = {}
        while at < len(self.data):
            left = len(self.data) - at
            if left < 12:
                return self._end(f"the file ends in the header of a block, at byte {at}")
            if self.data[at : at + 4] == b"\x0a\x0d\x0d\x0a":
                magic = self.data[at + 8 : at + 12]
                if magic not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                    return self._end(f"the section at byte {at} has no byte order")
                order = "<" if magic[0] == 0x4D else ">"
                interfaces = []
            kind, size = struct.unpack_from(f"{order}II", self.data, at)
            if size < 12 or size % 4 or size > _PACKET_MOST + 65536:
                return self._end(f"the block at byte {at} claims {size} bytes")
            if left < size:
                return self._end(f"the file ends in a block, at byte {at}")
            if struct.unpack_from(f"{order}I", self.data, at + size - 4)[0] != size:
                return self._end(f"the two lengths of the block at byte {at} differ")
            body = self.data[at + 8 : at + size - 4]
            try:
                if kind == _INTERFACE:
                    if len(interfaces) == _INTERFACES_MOST:
                        return self._end(f"there are more than {_INTERFACES_MOST} interfaces")
                    interfaces.append(_interface(order, body))
                elif kind in (_ENHANCED, _SIMPLE):
                    number += 1
                    yield _packet(order, kind, body, interfaces, number)
                elif kind == _STATISTICS:
                    (which,) = struct.unpack_from(f"{order}I", body)
                    drops[which] = _dropped(order, body[12:])
                    self.dropped = sum(drops.values())
            except (struct.error, IndexError, ValueError):
                return self._end(f"the block at byte {at} is malformed")
            at += size


def opened(data: bytes) -> File:
    """Return the file with this content, which may be compressed by gzip."""
    if data[:2] != b"\x1f\x8b":
        return File(data)
    engine = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = engine.decompress(data, FILE_MOST)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise CaptureError(f"the file is compressed by gzip, and damaged: {error}") from None
    if engine.unconsumed_tail:
        raise CaptureError(f"the file has more than {FILE_MOST} bytes when it is decompressed")
    found = File(plain)
    if not engine.eof:
        found.damage = "the compressed file is cut off"
    return found


def _options(order: str, data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while len(data) - at >= 4:
        code, size = struct.unpack_from(f"{order}HH", data, at)
        if not code or len(data) - at - 4 < size:
            return
        yield code, data[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4


def _interface(order: str, body: bytes) -> tuple[int, int, int]:
    """Return link type, units per second, and offset in seconds, of an interface."""
    (link,) = struct.unpack_from(f"{order}H", body)
    units, offset = 10**6, 0
    for code, value in _options(order, body[8:]):
        if code == 9 and value:
            power = value[0] & 0x7F
            units = 1 << min(power, 64) if value[0] & 0x80 else 10 ** min(power, 18)
        elif code == 14 and len(value) == 8:
            (offset,) = struct.unpack(f"{order}q", value)
    return link, units, offset


def _packet(
    order: str, kind: int, body: bytes, interfaces: list[tuple[int, int, int]], number: int
) -> Packet:
    if kind == _SIMPLE:
        (length,) = struct.unpack_from(f"{order}I", body)
        return Packet(number, 0, interfaces[0][0], body[4 : 4 + length], length)
    which, high, low, kept, length = struct.unpack_from(f"{order}5I", body)
    link, units, offset = interfaces[which]
    if kept > len(body) - 20:
        raise ValueError
    when = ((high << 32 | low) * 10**9) // units + offset * 10**9
    made = is_synthesised(body[20 + (kept + 3) // 4 * 4 :], order)
    return Packet(number, when, link, body[20 : 20 + kept], max(length, kept), made)


def is_synthesised(options: bytes, order: str = "=") -> bool:
    """Return whether a packet's options have a comment that says so."""
    return any(
        code == _COMMENT and value.startswith(_SYNTHESISED)
        for code, value in _options(order, options)
    )


def _dropped(order: str, options: bytes) -> int:
    for code, value in _options(order, options):
        if code == 5 and len(value) == 8:
            return int(struct.unpack(f"{order}Q", value)[0])
    return 0
