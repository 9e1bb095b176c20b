# SPDX-License-Identifier: BSD-3-Clause
"""Dialogues of a capture file: each packet is assigned to its connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from nvmf.capture import iwarp, roce
from nvmf.capture.container import Packet, opened
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.fault import At
from nvmf.capture.network import KNOWN, Address, Segment, segment

NVME_PORT = 4420
CONNECTIONS_MOST = 1 << 16


@dataclass(slots=True)
class Explained:
    """The contents of a capture file."""

    dialogues: list[Dialogue] = field(default_factory=list)
    packets: int = 0
    other: int = 0
    """Packets that belong to no NVMe-oF connection."""
    began: int = 0
    """Time of the first packet, in ns since the epoch."""
    ended: int = 0
    notes: list[str] = field(default_factory=list)
    """Remarks about the whole file."""

    @property
    def violations(self) -> int:
        """The number of violations of specifications."""
        return sum(bool(fault.section) for one in self.dialogues for fault in one.faults)


def explain(data: bytes, port: int = NVME_PORT, *, keep: bool = False) -> Explained:
    """Return the contents of a capture file (pcap or pcapng, also compressed by gzip).

    port: TCP port of connections whose beginning is not in the file; others are recognized by it.
    keep: keep the data of commands, for Command.content().
    Damage ends the reading, and is in the notes; CaptureError if it is not a capture file.
    """
    file = opened(data)
    explainer = Explainer(port, keep=keep)
    for packet in file.packets():
        explainer.feed(packet)
    found = explainer.finish()
    if file.damage:
        found.notes.append(f"{file.damage}: what was before it is explained")
    if file.dropped:
        found.notes.append(
            f"the program that captured dropped {file.dropped} packets: some sentences below may "
            "be due to that"
        )
    return found


class Explainer:
    """Takes packets, and distributes them to connections."""

    def __init__(self, port: int = NVME_PORT, *, keep: bool = False) -> None:
        self.found = Explained()
        self._keep = keep
        self._port = port
        self._at = At(0, 0)
        self._begun = 0
        self._links: set[int] = set()
        self._streams: dict[tuple[Address, Address], iwarp.Connection] = {}
        """By both addresses, in both orders."""
        self._foreign: set[tuple[Address, Address]] = set()
        self._roce = roce.Roce(lambda at, host, target: self._begin(at, "RoCEv2", host, target))

    def feed(self, packet: Packet) -> None:
        """Take the next packet."""
        found = self.found
        self._at = At(packet.when, packet.number)
        if not found.packets:
            found.began = packet.when
        found.packets += 1
        found.ended = max(found.ended, packet.when)
        if packet.link not in KNOWN:
            self._links.add(packet.link)
        one = segment(packet)
        if one is None or not self._take(self._at, one, made=packet.synthesised):
            found.other += 1

    def finish(self) -> Explained:
        """End the reading, and return the result."""
        for stream in {id(one): one for one in self._streams.values()}.values():
            stream.finish(self._at)
        if self._links:
            types = ", ".join(map(str, sorted(self._links)))
            self.found.notes.append(f"packets of unknown link types ({types}) are left out")
        return self.found

    def forget_ended(self) -> None:
        """Forget connections that have ended, which bounds long recordings."""
        self.found.dialogues = [one for one in self.found.dialogues if not one.ended]
        self._streams = {ends: one for ends, one in self._streams.items() if not one.dialogue.ended}
        self._foreign.clear()
        self._roce.forget_ended()

    def _take(self, at: At, one: Segment, *, made: bool) -> bool:
        """Pass a segment to its connection; return whether it has one."""
        if not one.tcp:
            if roce.PORT not in (one.source[1], one.target[1]):
                return False
            self._roce.datagram(at, one)
            return True
        ends = (one.source, one.target)
        if ends in self._foreign and not one.syn and one.payload[:16] != iwarp.REQUEST:
            return False
        stream = self._streams.get(ends)
        begins = one.payload[:16] == iwarp.REQUEST
        if stream is not None and (begins or one.syn) and stream.dialogue.ended:
            stream.finish(at)  # the ports are used again
            stream = None
        if stream is None:
            stream = self._stream(at, one, begins)
            if stream is None:
                return False
        stream.dialogue.packets += 1
        stream.dialogue.synthesised |= made
        stream.segment(at, one)
        return True

    def _stream(self, at: At, one: Segment, begins: bool) -> iwarp.Connection | None:
        """Return a new connection; None if the segment does not show that it is one."""
        ends, back = (one.source, one.target), (one.target, one.source)
        if begins or (one.payload and one.target[1] == self._port):
            host, target = ends
        elif one.payload and one.source[1] == self._port:
            target, host = ends
        elif one.payload:
            # between other ports, what is not the beginning of a connection is not recognized
            if len(self._foreign) < CONNECTIONS_MOST:
                self._foreign |= {ends, back}
            return None
        else:
            return None
        if len(self.found.dialogues) >= CONNECTIONS_MOST:
            return None
        stream = iwarp.Connection(self._begin(at, "iWARP", host, target))
        self._streams[ends] = self._streams[back] = stream
        return stream

    def _begin(self, at: At, transport: str, host: Address, target: Address) -> Dialogue:
        self._begun += 1
        dialogue = Dialogue(self._begun, transport, host, target, at, self._keep)
        self.found.dialogues.append(dialogue)
        return dialogue
