# SPDX-License-Identifier: BSD-3-Clause
"""Frames on the wire, as a relay needs them: FPDUs in a TCP stream, and the ICRC of RoCEv2."""

from __future__ import annotations

import socket
import struct
import zlib

_KEYS = (b"MPA ID Req Frame", b"MPA ID Rep Frame")
_SETUP = 20
"""Bytes of an MPA request or reply without its private data."""
_MARKERS = 0x80


class FpduStream:
    """One direction of an iWARP connection: bytes in, whole frames out.

    The first frame is MPA's request or reply.  A stream that is something else is passed on as it
    comes; so is one with markers, whose frames cannot be told apart here.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._set_up = False
        self._opaque = False

    def receive(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Return (frame, whether it is an FPDU) for the frames that are complete."""
        self._data += data
        found: list[tuple[bytes, bool]] = []
        while size := self._size():
            found.append((bytes(self._data[:size]), self._set_up and not self._opaque))
            del self._data[:size]
            self._set_up = True
        return found

    def rest(self) -> bytes:
        """Return an incomplete frame, at the end of the stream."""
        return bytes(self._data)

    def _size(self) -> int:
        """Return the size of the next frame; 0 if it is not complete."""
        have = len(self._data)
        if self._opaque:
            return have
        if self._set_up:
            size = ((2 + int.from_bytes(self._data[:2]) + 3) & ~3) + 4 if have >= 2 else 1 << 31
            return size if have >= size else 0
        if not any(key.startswith(self._data[:16]) for key in _KEYS):
            self._opaque = True
            return have
        if have < _SETUP:
            return 0
        self._opaque = bool(self._data[16] & _MARKERS)
        size = _SETUP + int.from_bytes(self._data[18:20])
        return size if have >= size else 0


def icrc(source: tuple[str, int], target: tuple[str, int], packet: bytes) -> bytes:
    """Return the ICRC of a RoCEv2 packet over IPv4: of a datagram with DF and identification 0.

    packet: from the BTH to the payload with its padding.
    """
    length = 8 + len(packet) + 4
    head = struct.pack("!BBHHHBBH", 0x45, 0xFF, 20 + length, 0, 0x4000, 0xFF, 17, 0xFFFF)
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
    ports = struct.pack("!HHHH", source[1], target[1], length, 0xFFFF)
    masked = b"\xff" * 8 + head + addresses + ports + packet[:4] + b"\xff" + packet[5:]
    return struct.pack("<I", zlib.crc32(masked))
