# SPDX-License-Identifier: BSD-3-Clause
"""Commands of recorded frames: each with its data both ways and its response."""

import struct
from dataclasses import dataclass, field

from wire import nvme, rdmap
from wire.capture import Frame
from wire.mpa import StartFrame
from wire.rdmap import Op, ReadRequest, Tagged


@dataclass
class Exchange:
    """One command of a recorded connection."""

    capsule: bytes
    """The whole command capsule, in-capsule data included."""
    host_data: bytes = b""
    """Data that the target read by RDMA READ."""
    target_data: bytearray = field(default_factory=bytearray)
    """Data that the target wrote, at its offsets in the host's buffer."""
    reads: list[ReadRequest] = field(default_factory=list)
    cqe: nvme.Cqe | None = None
    """None if it was not answered, or the answer was not recorded."""
    op: int = 0
    """RDMAP opcode of the response."""
    invalidated: int = 0

    @property
    def sqe(self) -> bytes:
        """The 64 bytes."""
        return self.capsule[:64]

    @property
    def opcode(self) -> int:
        """NVMe opcode."""
        return self.capsule[0]

    @property
    def cid(self) -> int:
        """Command identifier."""
        return int.from_bytes(self.capsule[2:4], "little")

    @property
    def nsid(self) -> int:
        """Namespace identifier (not of a fabrics command)."""
        return int.from_bytes(self.capsule[4:8], "little")

    @property
    def cdw(self) -> tuple[int, ...]:
        """CDW10 to CDW15."""
        return struct.unpack_from("<6I", self.capsule, 40)

    @property
    def keyed(self) -> tuple[int, int, int, int]:
        """Address, length, key and descriptor kind of its keyed SGL."""
        address, low, key, kind = struct.unpack_from("<Q3sIB", self.capsule, 24)
        return address, int.from_bytes(low, "little"), key, kind

    def __str__(self) -> str:
        return nvme.describe_sqe(self.capsule)


@dataclass
class Dialogue:
    """One recorded connection."""

    request: StartFrame
    reply: StartFrame
    exchanges: list[Exchange] = field(default_factory=list)


def dialogues(frames: list[Frame]) -> list[Dialogue]:
    """Every connection of a recording."""
    found: list[Dialogue] = []
    for connection in range(1 + max(frame.connection for frame in frames)):
        mine = [frame for frame in frames if frame.connection == connection]
        host = next(f.mpa for f in mine if f.start and f.host)
        target = next(f.mpa for f in mine if f.start and not f.host)
        dialogue = Dialogue(host, target)
        for frame in mine:
            if not frame.start:
                _add(dialogue.exchanges, frame)
        found.append(dialogue)
    return found


def _add(exchanges: list[Exchange], frame: Frame) -> None:
    segment = frame.segment
    if isinstance(segment, Tagged):
        if frame.host:
            _read_response(exchanges, segment)
        else:
            _write(exchanges, segment)
    elif frame.host:
        exchanges.append(Exchange(segment.payload))
    elif segment.op == Op.READ_REQUEST:
        request = rdmap.decode_read_request(segment.payload)
        _by_key(exchanges, request.source_stag).reads.append(request)
    else:
        cqe = nvme.decode_cqe(segment.payload)
        exchange = next(e for e in reversed(exchanges) if e.cid == cqe.cid and e.cqe is None)
        exchange.cqe, exchange.op, exchange.invalidated = cqe, segment.op, segment.rsvd


def _by_key(exchanges: list[Exchange], key: int) -> Exchange:
    return next(e for e in reversed(exchanges) if e.keyed[2] == key)


def _write(exchanges: list[Exchange], segment: Tagged) -> None:
    exchange = _by_key(exchanges, segment.stag)
    offset = segment.to - exchange.keyed[0]
    end = offset + len(segment.payload)
    exchange.target_data.extend(bytes(max(0, end - len(exchange.target_data))))
    exchange.target_data[offset:end] = segment.payload


def _read_response(exchanges: list[Exchange], segment: Tagged) -> None:
    for exchange in exchanges:
        for request in exchange.reads:
            if request.sink_stag == segment.stag and (
                request.sink_to + len(exchange.host_data) == segment.to
            ):
                exchange.host_data += segment.payload
                return
    raise AssertionError(f"a Read Response that nobody asked for: {segment.stag:#x}")
