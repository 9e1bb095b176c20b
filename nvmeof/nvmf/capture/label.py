# SPDX-License-Identifier: BSD-3-Clause
"""Comments of a recording: the packet that completes a Connect gets the NQNs of its connection; and
the choice of one end, if both ends of a synthesised connection are recorded.
"""

from __future__ import annotations

import struct

from nvmf.capture.container import Packet
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.explain import Explainer
from nvmf.capture.network import Address, segment

_PACKETS = {6: 64, 17: 512}
"""Maximum number of packets of a flow that are examined, TCP and UDP: the queue pairs of two hosts
are one flow.
"""
_FLOWS_MOST = 10_000
_COMMENT = 1


class Labels:
    """Finds the Connect of each connection in its first packets."""

    def __init__(self) -> None:
        self._explainer = Explainer()
        self._seen: dict[tuple[bytes, ...], int] = {}
        self._known: set[int] = set()

    def comment(self, packet: Packet) -> str:
        """Return the comment for a packet of raw IP; "" for most."""
        found = _flow(packet.data)
        if found is None or (found[0] not in self._seen and len(self._seen) == _FLOWS_MOST):
            return ""
        key, protocol = found
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if count > _PACKETS.get(protocol, 0):
            return ""
        self._explainer.feed(packet)
        for one in self._explainer.found.dialogues:
            if one.subnqn and one.number not in self._known:
                self._known.add(one.number)
                one.commands.clear()
                return _said(one)
        return ""


class Ends:
    """Chooses an end of each synthesised connection: the frames of the two would not agree."""

    def __init__(self) -> None:
        self._chosen: dict[frozenset[Address], tuple[int, int]] = {}
        """The process, and the time when it closed the connection; 0: not yet."""

    def is_second(self, packet: Packet, process: int) -> bool:
        """Return whether a different process records the connection of a packet."""
        one = segment(packet)
        if one is None:
            return False
        ends = frozenset((one.source, one.target))
        chosen, closed = self._chosen.get(ends, (process, 0))
        if one.syn and closed and packet.when > closed:  # the ports are used again
            chosen, closed = process, 0
        if chosen != process:
            return True
        if ends in self._chosen or len(self._chosen) < _FLOWS_MOST:
            self._chosen[ends] = (process, packet.when if one.fin else closed)
        return False


def commented(block: bytes, text: str) -> bytes:
    """Return an Enhanced Packet Block with a comment before its other options."""
    (kept,) = struct.unpack_from("=I", block, 20)
    end = 28 + (kept + 3) // 4 * 4
    data = text.encode()
    option = struct.pack("=HH", _COMMENT, len(data)) + data + bytes(-len(data) % 4)
    options = block[end:-4] or bytes(4)
    size = struct.pack("=I", end + len(option) + len(options) + 4)
    return block[:4] + size + block[8:end] + option + options + size


def _said(one: Dialogue) -> str:
    queue = "" if one.qid is None else f", queue {one.qid}"
    return f"connection {one.number}: {one.hostnqn} to {one.subnqn}{queue}"


def _flow(data: bytes) -> tuple[tuple[bytes, ...], int] | None:
    """Return the two ends of a packet, the same for both directions, and the protocol."""
    if len(data) >= 24 and data[0] >> 4 == 4:
        size, protocol, addresses = (data[0] & 15) * 4, data[9], (data[12:16], data[16:20])
    elif len(data) >= 44 and data[0] >> 4 == 6:
        size, protocol, addresses = 40, data[6], (data[8:24], data[24:40])
    else:
        return None
    ports = (data[size : size + 2], data[size + 2 : size + 4])
    if protocol == 17:  # RoCEv2: the source port is that of the queue pair
        return tuple(sorted(addresses)), protocol
    ends = sorted(a + p for a, p in zip(addresses, ports, strict=True))
    return tuple(ends), protocol
