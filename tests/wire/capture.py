# SPDX-License-Identifier: BSD-3-Clause
"""Recorded connections: the frames of every connection, in the order of arrival.

A recording is an xz file of records: connection u8, side u8 ('H' host or 'T' target), length u32
big-endian, then that many bytes, which are one whole MPA start frame or one whole FPDU. ``python
-m wire.capture IN.pcap[.gz] OUT.xz`` makes one from a packet capture (classic pcap, Ethernet,
IPv4, the target on port 4420); ``python -m wire.capture OUT.xz`` lists one.
"""

import gzip
import lzma
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wire import mpa, nvme, rdmap

PORT = 4420
RECORDING = Path(__file__).parents[1] / "data" / "capture" / "siw-nvme.xz"
"""A Linux host and nvmet on siw: discovery, admin queue, I/O queue."""


@dataclass(frozen=True)
class Frame:
    """One frame of one connection."""

    connection: int
    host: bool
    """Whether the host sent it."""
    data: bytes
    start: bool
    """Whether it is the MPA start frame of its side."""

    @property
    def mpa(self) -> mpa.StartFrame:
        """The start frame."""
        found = mpa.decode_start(self.data)
        assert found is not None
        return found[0]

    @property
    def segment(self) -> rdmap.Tagged | rdmap.Untagged:
        """The DDP segment."""
        found = mpa.decode_fpdu(self.data, False)
        assert found is not None
        return rdmap.decode(found[0])


def load(path: Path) -> list[Frame]:
    """The frames of a recording."""
    data = lzma.decompress(path.read_bytes())
    frames: list[Frame] = []
    seen: set[tuple[int, int]] = set()
    offset = 0
    while offset < len(data):
        connection, side, length = struct.unpack_from(">BBI", data, offset)
        offset += 6
        start = (connection, side) not in seen
        seen.add((connection, side))
        frames.append(Frame(connection, side == 72, data[offset : offset + length], start))
        offset += length
    return frames


def _segments(pcap: bytes) -> Iterator[tuple[int, bool, int, bool, bytes]]:
    """Yield host port, whether the host sent it, sequence number, SYN, payload of every TCP
    segment.
    """
    if pcap[:4] != b"\xd4\xc3\xb2\xa1" or pcap[20:24] != b"\x01\0\0\0":
        raise ValueError("not a little-endian classic pcap of Ethernet frames")
    offset = 24
    while offset < len(pcap):
        captured, length = struct.unpack_from("<II", pcap, offset + 8)
        packet = pcap[offset + 16 : offset + 16 + captured]
        offset += 16 + captured
        if captured != length:
            raise ValueError("the capture has truncated packets")
        if packet[12:14] != b"\x08\x00" or packet[23] != 6:
            continue
        ip = packet[14:]
        tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4], "big")]
        source, target, sequence = struct.unpack_from(">HHI", tcp)
        host = target == PORT
        syn = bool(tcp[13] & 2)
        yield (source if host else target), host, sequence, syn, tcp[(tcp[12] >> 4) * 4 :]


@dataclass
class _Stream:
    """One direction of one connection, in the correct order."""

    expected: int
    data: bytes = b""
    started: bool = False
    early: dict[int, bytes] = field(default_factory=dict)

    def add(self, sequence: int, payload: bytes) -> None:
        """Add a TCP segment, in any order."""
        self.early[sequence] = max(self.early.get(sequence, b""), payload, key=len)
        for start in sorted(self.early, key=lambda at: at - self.expected & 0xFFFFFFFF):
            known = self.expected - start & 0xFFFFFFFF
            if known >= 1 << 31:
                continue
            fresh = self.early.pop(start)[known:]
            self.data += fresh
            self.expected = self.expected + len(fresh) & 0xFFFFFFFF

    def frames(self) -> Iterator[bytes]:
        """Yield the frames that are complete so far."""
        while True:
            found: tuple[object, int] | None
            if self.started:
                found = mpa.decode_fpdu(self.data, False)
            else:
                found = mpa.decode_start(self.data)
            if found is None:
                return
            self.started = True
            frame, self.data = self.data[: found[1]], self.data[found[1] :]
            yield frame


def convert(pcap: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Yield connection index, side and bytes of each frame, in the order of their completion."""
    connections: dict[int, int] = {}
    streams: dict[tuple[int, bool], _Stream] = {}
    for port, host, sequence, syn, payload in _segments(pcap):
        if syn:
            connections.setdefault(port, len(connections))
            streams[port, host] = _Stream(sequence + 1 & 0xFFFFFFFF)
        elif payload:
            streams[port, host].add(sequence, payload)
            for frame in streams[port, host].frames():
                yield connections[port], host, frame
    for (port, host), stream in streams.items():
        if stream.early or stream.data:
            side = "host" if host else "target"
            print(f"connection {connections[port]}, {side}: packets missing", file=sys.stderr)
        for start in sorted(stream.early, key=lambda at: at - stream.expected & 0xFFFFFFFF):
            stream.data = stream.early[start]
            for frame in stream.frames():
                yield connections[port], host, frame


def describe(frame: Frame) -> str:
    """Return one line about a frame."""
    who = f"{frame.connection} {'host  ' if frame.host else 'target'}"
    if frame.start:
        start = frame.mpa
        words = " ".join(f"{word:#06x}" for word in start.words)
        return f"{who} MPA bits {start.bits:#06x} {words} {start.application_data.hex()}"
    segment = frame.segment
    name = rdmap.Op(segment.op).name + ("" if segment.last else "…")
    if isinstance(segment, rdmap.Tagged):
        return f"{who} {name} {segment.stag:#x}:{segment.to:#x} {len(segment.payload)} bytes"
    if segment.op == rdmap.Op.READ_REQUEST:
        return f"{who} {name} {rdmap.decode_read_request(segment.payload)}"
    if segment.op == rdmap.Op.TERMINATE:
        return f"{who} {rdmap.decode_terminate(segment.payload)}"
    capsule = segment.payload
    text = nvme.describe_sqe(capsule) if frame.host else nvme.describe_cqe(capsule)
    return f"{who} {name} msn {segment.msn} inv {segment.rsvd:#x} {text}"


def main(arguments: list[str]) -> None:
    """Convert a packet capture, or list a recording."""
    if len(arguments) == 2:
        data = Path(arguments[0]).read_bytes()
        pcap = gzip.decompress(data) if arguments[0].endswith(".gz") else data
        records = b"".join(
            struct.pack(">BBI", connection, 72 if host else 84, len(frame)) + frame
            for connection, host, frame in convert(pcap)
        )
        Path(arguments[1]).write_bytes(lzma.compress(records, preset=9 | lzma.PRESET_EXTREME))
    else:
        for frame in load(Path(arguments[0])):
            print(describe(frame))


if __name__ == "__main__":
    main(sys.argv[1:])
