# SPDX-License-Identifier: BSD-3-Clause
"""The host, queue and namespace of a frame, determined from the frames themselves.

The private data of the connection's request has the queue, the data of Connect the NQNs.  A command
has the namespace; its data is recognized by the keys of its SGL, its response by its CID.  Frames
are those of others: nothing here fails, whatever they are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from nvmf.config.wirefaults import Way

_FABRICS, _CONNECT = 0x7F, 1
_SQE, _CONNECT_DATA = 64, 1024
_PRIVATE = 32
_READS = 64
"""RDMA READs of a queue that are remembered: more than a device has outstanding."""
_QUEUES = 4096
"""Queues of a host that are remembered."""
_K = TypeVar("_K")


@dataclass(slots=True)
class Owner:
    """The owner of a frame; None: unknown, or without a namespace."""

    host: str | None = None
    subsystem: str | None = None
    queue: int | None = None
    nsid: int | None = None
    port: tuple[str, int] | None = None
    """Address and port that the host is connected to."""


@dataclass(slots=True)
class Queue:
    """A queue pair of a host, and its commands without a response."""

    owner: Owner = field(default_factory=Owner)
    """The owner of frames of no namespace."""
    pending: dict[int, tuple[int | None, list[int]]] = field(default_factory=dict)
    """By CID: namespace and keys."""
    keys: dict[int, int | None] = field(default_factory=dict)
    """Namespaces by key."""
    connect: bytearray | None = None
    """Data of Connect, while it is being read."""

    def of(self, nsid: int | None) -> Owner:
        """Return the owner of a frame of a namespace."""
        known = self.owner
        return Owner(known.host, known.subsystem, known.queue, nsid, known.port)

    def private_data(self, data: bytes) -> None:
        """Take the private data of the request."""
        if len(data) >= _PRIVATE:
            self.owner.queue = _le(data[2:4])

    def command(self, data: bytes) -> int | None:
        """Take a command capsule; return its namespace."""
        if len(data) < _SQE:
            return None
        opcode, cid = data[0], _le(data[2:4])
        nsid = None if opcode == _FABRICS else _le(data[4:8]) or None
        self._forget(cid)
        keys = _keys(data)
        self.pending[cid] = nsid, keys
        self.keys.update(dict.fromkeys(keys, nsid))
        if opcode == _FABRICS and data[4] == _CONNECT and self.owner.host is None:
            inside = data[_SQE + _le(data[24:32]) :] if not keys else b""
            self.connect = bytearray()
            self.connect_data(inside)
        return nsid

    def connect_data(self, data: bytes) -> None:
        """Take data that the target reads from the host, if it is that of Connect."""
        if self.connect is None:
            return
        self.connect += data[: _CONNECT_DATA - len(self.connect)]
        if len(self.connect) == _CONNECT_DATA:
            self.owner.subsystem = _name(self.connect[256:512])
            self.owner.host = _name(self.connect[512:768])
            self.connect = None

    def response(self, data: bytes) -> int | None:
        """Take a response capsule; return the namespace of its command."""
        return self._forget(_le(data[12:14]))

    def access(self, key: int) -> int | None:
        """Return the namespace of the command that has a key."""
        return self.keys.get(key)

    def _forget(self, cid: int) -> int | None:
        nsid, keys = self.pending.pop(cid, (None, []))
        for key in keys:
            self.keys.pop(key, None)
        return nsid


class FpduOwner:
    """The queue of a TCP connection of iWARP."""

    def __init__(self, port: tuple[str, int] | None) -> None:
        self.queue = Queue(Owner(port=port))
        self._reads: deque[list[int | None]] = deque()
        """Namespace and missing bytes of the target's READs, in their order."""
        self._last: dict[Way, int | None] = {"to-target": None, "to-host": None}
        """Namespace of the Send that continues."""

    def see(self, frame: bytes, way: Way, *, fpdu: bool) -> Owner:
        """Take a frame of a direction; return its owner."""
        if not fpdu:
            if way == "to-target" and len(frame) > 20:
                self.queue.private_data(frame[24:] if frame[16] & 0x10 else frame[20:])
            return self.queue.of(None)
        if len(frame) < 20:
            return self.queue.of(None)
        body = frame[: 2 + int.from_bytes(frame[:2])]
        return self.queue.of(self._nsid(body, way))

    def _nsid(self, frame: bytes, way: Way) -> int | None:
        opcode, queue = frame[3] & 15, self.queue
        if opcode in (3, 4, 5, 6):
            if not int.from_bytes(frame[16:20]):  # the first segment
                take = queue.command if way == "to-target" else queue.response
                self._last[way] = take(frame[20:])
            elif way == "to-target":
                queue.connect_data(frame[20:])
            return self._last[way]
        if way == "to-host" and opcode == 0:
            return queue.access(int.from_bytes(frame[4:8]))
        if way == "to-host" and opcode == 1:
            nsid = queue.access(int.from_bytes(frame[36:40]))
            self._reads.append([nsid, int.from_bytes(frame[32:36])])
            return nsid
        if way == "to-target" and opcode == 2 and self._reads:
            nsid, missing = self._reads[0]
            data = frame[16:]
            queue.connect_data(data)
            self._reads[0][1] = (missing or 0) - len(data)
            if (missing or 0) <= len(data):
                self._reads.popleft()
            return nsid
        return None


@dataclass(slots=True)
class _Pair:
    """The queue pairs of a queue."""

    queue: Queue
    reads: deque[tuple[int, int | None]] = field(default_factory=lambda: deque(maxlen=_READS))
    """First PSN and namespace of the target's READs."""
    last: dict[Way, int | None] = field(
        default_factory=lambda: {"to-target": None, "to-host": None}
    )
    """Namespace of the message that continues."""
    psn: int = -1
    """PSN of the last packet of Connect's data."""


class PacketOwner:
    """The queues of a host of RoCEv2."""

    def __init__(self, port: tuple[str, int] | None) -> None:
        self._port = port
        self._asked: dict[int, _Pair] = {}
        """By the host's communication ID."""
        self._pairs: dict[tuple[Way, int], _Pair] = {}
        """By direction and the receiving queue pair."""

    def lane(self, packet: bytes, way: Way) -> int:
        """Return a number for packets of a direction that keep their order: the queue pair's."""
        number = int.from_bytes(packet[5:8])
        return number if (way, number) in self._pairs else 0

    def see(self, packet: bytes, way: Way) -> Owner:
        """Take a packet of a direction, from its BTH and without ICRC; return its owner."""
        number = int.from_bytes(packet[5:8])
        if number == 1:
            return self._cm(packet[20:], way)
        pair = self._pairs.get((way, number))
        if pair is None or len(packet) < 12:
            return Owner(port=self._port)
        return pair.queue.of(self._nsid(pair, packet, way))

    def _cm(self, mad: bytes, way: Way) -> Owner:
        kind, body = int.from_bytes(mad[16:18]), mad[24:]
        ours, theirs = body[:4], body[4:8]
        if kind == 0x10 and way == "to-target" and len(body) > 140:
            pair = _Pair(Queue(Owner(port=self._port)))
            pair.queue.private_data(body[140 + 36 :])
            _bounded(self._asked)[int.from_bytes(ours)] = pair
            _bounded(self._pairs)["to-host", int.from_bytes(body[32:35])] = pair
            return pair.queue.of(None)
        known = self._asked.get(int.from_bytes(theirs if way == "to-host" else ours))
        if known is None:
            return Owner(port=self._port)
        if kind == 0x13 and way == "to-host":
            _bounded(self._pairs)["to-target", int.from_bytes(body[12:15])] = known
        return known.queue.of(None)

    @staticmethod
    def _nsid(pair: _Pair, packet: bytes, way: Way) -> int | None:
        opcode, psn = packet[0], int.from_bytes(packet[9:12])
        body = packet[12 : len(packet) - (packet[1] >> 4 & 3)]
        queue = pair.queue
        match opcode:
            case 0x00 | 0x04 | 0x17:
                data = body[4:] if opcode == 0x17 else body
                take = queue.command if way == "to-target" else queue.response
                pair.last[way] = take(data)
                return pair.last[way]
            case 0x06 | 0x0A:
                pair.last[way] = queue.access(int.from_bytes(body[8:12]))
                return pair.last[way]
            case 0x01 | 0x02 | 0x16 | 0x07 | 0x08:
                if way == "to-target":
                    queue.connect_data(body)
                return pair.last[way]
            case 0x0C:
                nsid = queue.access(int.from_bytes(body[8:12]))
                if all(first != psn for first, _ in pair.reads):
                    pair.reads.append((psn, nsid))
                return nsid
            case 0x0D | 0x0E | 0x0F | 0x10:
                before = [((psn - first) & 0xFFFFFF, nsid) for first, nsid in pair.reads]
                if psn != pair.psn:
                    pair.psn = psn
                    queue.connect_data(body if opcode == 0x0E else body[4:])
                return min(before, default=(0, None), key=lambda one: one[0])[1]
        return None


def _bounded(found: dict[_K, _Pair]) -> dict[_K, _Pair]:
    while len(found) >= _QUEUES:
        del found[next(iter(found))]
    return found


def _keys(sqe: bytes) -> list[int]:
    """Return the keys of the keyed descriptors of a command."""
    size, kind = _le(sqe[32:36]), sqe[39] >> 4
    if kind == 4:
        return [_le(sqe[35:39])]
    if kind != 3:
        return []
    at = _SQE + _le(sqe[24:32])
    parts = [sqe[n : n + 16] for n in range(at, min(at + size, len(sqe) - 15), 16)]
    return [_le(part[11:15]) for part in parts if part[15] >> 4 == 4]


def _le(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _name(data: bytes | bytearray) -> str:
    return bytes(data).partition(b"\0")[0].decode(errors="replace")
