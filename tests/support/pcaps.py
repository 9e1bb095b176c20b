# SPDX-License-Identifier: BSD-3-Clause
"""Capture files made by tests: packets of recorded and hand-made exchanges.

Written from the formats' own descriptions, without the product's code.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from wire import capture, mpa, nvme, rdmap

HOST, TARGET = ("10.0.0.1", 40000), ("10.0.0.2", 4420)
End = tuple[str, int]


def _ip(address: str) -> bytes:
    return bytes(int(part) for part in address.split("."))


def tcp(
    source: End, target: End, seq: int, payload: bytes, flags: int = 0x18, ack: int = 0
) -> bytes:
    """Return an IPv4 packet with a TCP segment; checksums are 0."""
    segment = struct.pack(">HHIIBBHHH", source[1], target[1], seq, ack, 0x50, flags, 65535, 0, 0)
    total = 20 + len(segment) + len(payload)
    header = struct.pack(">BBHHHBBH", 0x45, 0, total & 0xFFFF, 0, 0, 64, 6, 0)
    return header + _ip(source[0]) + _ip(target[0]) + segment + payload


def pcap(
    packets: Iterable[bytes],
    *,
    order: str = "<",
    nanoseconds: bool = False,
    without_data: Container[int] = (),
) -> bytes:
    """Return a pcap file of IP packets, a millisecond apart.

    without_data: the indexes of packets of which only headers are captured.
    """
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262144, 101)
    for number, packet in enumerate(packets):
        part = number % 1000 * (1_000_000 if nanoseconds else 1000)
        kept = packet[:40] if number in without_data else packet
        out += struct.pack(f"{order}4I", number // 1000, part, len(kept), len(packet)) + kept
    return out


def pcapng(packets: Iterable[bytes], *, order: str = "<", link: int = 101) -> bytes:
    """Return a pcapng file with one interface, packets a millisecond apart."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        return struct.pack(f"{order}II", kind, size) + body + struct.pack(f"{order}I", size)

    out = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack(f"{order}HHI", link, 0, 0))
    for number, packet in enumerate(packets):
        when = number * 1000
        head = struct.pack(f"{order}5I", 0, when >> 32, when & 0xFFFFFFFF, *[len(packet)] * 2)
        out += block(6, head + packet)
    return out


def recording(frames: Sequence[capture.Frame]) -> list[bytes]:
    """Return the packets of a recording, a segment or more for each frame.

    Frames that the recording lacks are a hole in the sequence numbers.
    """
    msns: dict[tuple[int, bool], int] = {}
    next_: dict[tuple[int, bool], int] = {}
    packets = []
    for frame in frames:
        host = ("10.77.0.2", 40000 + frame.connection)
        ends = (host, ("10.77.0.2", 4420)) if frame.host else (("10.77.0.2", 4420), host)
        segment = None if frame.start else frame.segment
        if isinstance(segment, rdmap.Untagged) and segment.qn == rdmap.QN_SEND:
            if segment.msn > msns.get((frame.connection, frame.host), 0) + 1:
                next_[frame.connection, frame.host] += 4000
            msns[frame.connection, frame.host] = segment.msn
        for at in range(0, len(frame.data), 32768):
            piece = frame.data[at : at + 32768]
            seq = next_.setdefault((frame.connection, frame.host), 1)
            ack = next_.get((frame.connection, not frame.host), 1)
            packets.append(tcp(*ends, seq, piece, ack=ack))
            next_[frame.connection, frame.host] = seq + len(piece) & 0xFFFFFFFF
    return packets


@dataclass
class Exchange:
    """A connection that a test builds message by message; it is valid unless the test changes
    it.
    """

    crc: bool = False
    packets: list[bytes] = field(default_factory=list)
    seqs: dict[bool, int] = field(default_factory=lambda: {True: 1, False: 1})
    msns: dict[tuple[bool, int], int] = field(default_factory=dict)

    def raw(self, host: bool, data: bytes, flags: int = 0x18) -> None:
        """Add a segment."""
        ends = (HOST, TARGET) if host else (TARGET, HOST)
        self.packets.append(tcp(*ends, self.seqs[host], data, flags, self.seqs[not host]))
        self.seqs[host] += len(data)

    def begin(self, private: bytes | None = None, *, bits: int = 0x0001, reply: int = 1) -> None:
        """Add the MPA request and reply of an admin queue."""
        bits |= 0x4000 if self.crc else 0
        data = struct.pack("<4H", 0, 0, 32, 31) + bytes(24) if private is None else private
        self.raw(True, mpa.StartFrame(False, bits, data).encode())
        reply |= 0x4000 if self.crc else 0
        answer = struct.pack("<HH", 0, 32) + bytes(28)
        self.raw(False, mpa.StartFrame(True, reply, answer).encode())

    def fpdu(self, host: bool, ulpdu: bytes) -> None:
        """Add an FPDU."""
        self.raw(host, mpa.encode_fpdu(ulpdu, self.crc))

    def send(
        self, host: bool, payload: bytes, *, key: int | None = None, msn: int | None = None
    ) -> None:
        """Add a Send."""
        expected = self.msns.get((host, 0), 1)
        self.msns[host, 0] = expected + 1
        op = rdmap.Op.SEND if key is None else rdmap.Op.SEND_INVALIDATE
        number = expected if msn is None else msn
        self.fpdu(host, rdmap.encode_untagged(op, payload, msn=number, rsvd=key or 0))

    def read(self, key: int, address: int, length: int, data: bytes | None = None) -> None:
        """Add the target's READ, and the host's answer."""
        number = self.msns.get((False, 1), 1)
        self.msns[False, 1] = number + 1
        request = rdmap.ReadRequest(7, 0, length, key, address).encode()
        self.fpdu(False, rdmap.encode_untagged(rdmap.Op.READ_REQUEST, request, msn=number, qn=1))
        self.fpdu(
            True,
            rdmap.encode_tagged(
                rdmap.Op.READ_RESPONSE, 7, 0, bytes(length) if data is None else data
            ),
        )

    def write(self, key: int, address: int, data: bytes, *, host: bool = False) -> None:
        """Add an RDMA WRITE."""
        self.fpdu(host, rdmap.encode_tagged(rdmap.Op.WRITE, key, address, data))

    def connect(self, *, qid: int = 0, sqsize: int = 31) -> None:
        """Add a Connect and its successful response."""
        data = bytearray(1024)
        data[16:18] = b"\xff\xff"
        data[256:280] = b"nqn.2026-11.example:disk".ljust(24, b"\0")
        data[512:536] = b"nqn.2026-11.example:host".ljust(24, b"\0")
        self.command(nvme.FABRICS, 0, nsid=1, cdw10=qid << 16, cdw11=sqsize, length=1024)
        self.read(0x11, 0x1000, 1024, bytes(data))
        self.respond(0, dw0=1)

    def command(
        self, opcode: int, cid: int, *, nsid: int = 0, cdw10: int = 0, cdw11: int = 0,
        cdw12: int = 0, length: int = 0, flags: int = 0x40, kind: int = 0x40, data: bytes = b"",
    ) -> None:  # fmt: skip
        """Add a command whose memory has key 11h and address 1000h."""
        sgl = struct.pack("<Q", 0x1000) + length.to_bytes(3, "little")
        sgl += (0x11).to_bytes(4, "little") + bytes([kind])
        sqe = struct.pack("<BBHI16x", opcode, flags, cid, nsid) + sgl
        sqe += struct.pack("<6I", cdw10, cdw11, cdw12, 0, 0, 0)
        self.send(True, sqe + data)

    def respond(self, cid: int, status: int = 0, *, dw0: int = 0, key: int | None = None) -> None:
        """Add a response."""
        self.send(False, struct.pack("<IIHHHH", dw0, 0, 1, 0, cid, status << 1), key=key)
