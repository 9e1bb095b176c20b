# SPDX-License-Identifier: BSD-3-Clause
"""From packets of a link to TCP segments and UDP datagrams.  Fragments of IP are not joined."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from nvmf.capture.container import Packet

Address = tuple[str, int]
"""Numeric IP address, and port number."""

_ETHERNET, _LOOPBACK, _RAW, _RAW_OLD, _COOKED, _COOKED2, _IPV4, _IPV6 = (
    1, 0, 101, 12, 113, 276, 228, 229,
)  # fmt: skip
KNOWN = {_ETHERNET, _LOOPBACK, _RAW, _RAW_OLD, _COOKED, _COOKED2, _IPV4, _IPV6}
"""Link types that are understood."""
_VLAN = (0x8100, 0x88A8)


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment or a UDP datagram."""

    tcp: bool
    source: Address
    target: Address
    payload: bytes
    """The captured part."""
    length: int
    """Bytes of the whole payload."""
    seq: int = 0
    ack: int = 0
    flags: int = 0

    @property
    def syn(self) -> bool:
        """Whether it begins a connection."""
        return bool(self.flags & 2)

    @property
    def fin(self) -> bool:
        """Whether it ends a direction, in order or by a reset."""
        return bool(self.flags & 5)


def segment(packet: Packet) -> Segment | None:
    """Return the segment in a packet; None if there is none that is understood."""
    try:
        found = _ip(packet)
        if found is None:
            return None
        data, start = found
        return _four(data, start) if data[start] >> 4 == 4 else _six(data, start)
    except (struct.error, IndexError, ValueError):
        return None


def _ip(packet: Packet) -> tuple[bytes, int] | None:
    """Return the data, and where the IP header begins in it."""
    data, link = packet.data, packet.link
    if link in (_RAW, _RAW_OLD, _IPV4, _IPV6):
        start = 0
    elif link == _LOOPBACK:
        start = 4
    elif link in (_ETHERNET, _COOKED):
        at = 12 if link == _ETHERNET else 14
        (kind,) = struct.unpack_from(">H", data, at)
        while kind in _VLAN and at < 32:
            at += 4
            (kind,) = struct.unpack_from(">H", data, at)
        if kind not in (0x0800, 0x86DD):
            return None
        start = at + 2
    elif link == _COOKED2:
        start = 20
    else:
        return None
    return (data, start) if data[start] >> 4 in (4, 6) else None


def _four(data: bytes, start: int) -> Segment | None:
    size = (data[start] & 15) * 4
    (total,) = struct.unpack_from(">H", data, start + 2)
    (fragment,) = struct.unpack_from(">H", data, start + 6)
    if fragment & 0x3FFF or size < 20:
        return None
    source, target = (str(ipaddress.IPv4Address(data[start + i : start + i + 4])) for i in (12, 16))
    # segmentation offload leaves the total length 0
    return _transport(
        data, start + size, data[start + 9], source, target, total - size if total else -1
    )


def _six(data: bytes, start: int) -> Segment | None:
    (length,) = struct.unpack_from(">H", data, start + 4)
    source, target = (str(ipaddress.IPv6Address(data[start + i : start + i + 16])) for i in (8, 24))
    return _transport(data, start + 40, data[start + 6], source, target, length or -1)


def _transport(
    data: bytes, at: int, protocol: int, source: str, target: str, size: int
) -> Segment | None:
    """size: bytes from the transport's header to the end of the IP packet; -1: to that of data."""
    if size < 0:
        size = len(data) - at
    ports = struct.unpack_from(">HH", data, at)
    if protocol == 6:
        seq, ack, header, flags = struct.unpack_from(">IIBB", data, at + 4)
        skip = (header >> 4) * 4
    elif protocol == 17:
        seq, ack, flags, skip = 0, 0, 0, 8
    else:
        return None
    length = size - skip
    if length < 0 or skip < 8:
        return None
    payload = data[at + skip : at + skip + length]
    return Segment(
        protocol == 6, (source, ports[0]), (target, ports[1]), payload, length, seq, ack, flags
    )
