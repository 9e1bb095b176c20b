# SPDX-License-Identifier: BSD-3-Clause
"""RoCEv2: UDP datagrams of port 4791, the CM's messages and the RC service (IBTA, volume 1, 9
and 12, annex A17).  The invariant CRC is not verified.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from nvmf.capture.dialogue import Dialogue
from nvmf.capture.fault import At
from nvmf.capture.network import Address, Segment

PORT = 4791
_BTH, _DETH, _MAD, _ICRC = 12, 8, 256, 4
_QP1 = 1
_CM_CLASS = 7
_REQ, _REJ, _REP, _DREQ = 0x10, 0x12, 0x13, 0x15
_SERVICE = 0x0106
_CMA = 36
_FIRST, _MIDDLE, _LAST, _ONLY = range(4)
_PARTS = {
    0x00: _FIRST, 0x01: _MIDDLE, 0x02: _LAST, 0x04: _ONLY, 0x16: _LAST, 0x17: _ONLY,
    0x06: _FIRST, 0x07: _MIDDLE, 0x08: _LAST, 0x0A: _ONLY,
    0x0D: _FIRST, 0x0E: _MIDDLE, 0x0F: _LAST, 0x10: _ONLY,
}  # fmt: skip
_SENDS, _WRITES, _RESPONSES = (
    (0x00, 0x01, 0x02, 0x04, 0x16, 0x17), (0x06, 0x07, 0x08, 0x0A), (0x0D, 0x0E, 0x0F, 0x10),
)  # fmt: skip
_SEND_INVALIDATE = (0x16, 0x17)
_READ_REQUEST, _ACK, _ATOMIC_ACK = 0x0C, 0x11, 0x12
_CNP = 0x81
_REJECTS = {
    1: "no queue pair available", 3: "no resources available", 4: "timeout",
    6: "invalid communication ID", 8: "invalid service ID", 9: "invalid transport service type",
    10: "stale connection", 26: "invalid path MTU", 28: "consumer reject",
}  # fmt: skip
_NAKS = {
    0: "PSN sequence error", 1: "invalid request", 2: "remote access error",
    3: "remote operational error",
}  # fmt: skip
_MESSAGE_MOST = 1 << 20
_HALF = 1 << 23
_CONNECTIONS_MOST = 1 << 16


@dataclass(slots=True)
class Side:
    """The packets of one side."""

    psn: int | None = None
    """The PSN expected in the next request."""
    answer: int | None = None
    """The PSN expected in the next response to its READs."""
    message: bytearray = field(default_factory=bytearray)
    size: int = 0
    address: int = 0
    key: int = 0
    repeated: int = 0


@dataclass(slots=True)
class Connection:
    """A pair of queue pairs."""

    dialogue: Dialogue
    mtu: int = 0
    host: Side = field(default_factory=Side)
    target: Side = field(default_factory=Side)
    naks: int = 0


class Roce:
    """All connections of a capture."""

    def __init__(self, begin: Callable[[At, Address, Address], Dialogue]) -> None:
        self._begin = begin
        self._requests: dict[tuple[str, int], Connection] = {}
        """By the host's address and communication ID."""
        self._queues: dict[tuple[str, int], tuple[Connection, bool]] = {}
        """By address and number of the queue pair that receives: and whether the host sends."""

    def datagram(self, at: At, one: Segment) -> None:
        """Take a datagram of port 4791."""
        data = one.payload
        if one.length < _BTH + _ICRC or len(data) < _BTH:
            return
        opcode, control, queue, psn = struct.unpack_from(">BB2xII", data)
        queue &= 0xFFFFFF
        if queue == _QP1:
            if opcode == 0x64 and len(data) >= _BTH + _DETH + _MAD:
                self._cm(at, one, data[_BTH + _DETH : _BTH + _DETH + _MAD])
            return
        found = self._queues.get((one.target[0], queue))
        if found is None:
            return
        connection, host = found
        connection.dialogue.packets += 1
        if opcode == _CNP:
            return  # a congestion notification, which has no PSN of the connection
        pad = control >> 4 & 3
        size = one.length - _BTH - _ICRC - pad
        body = data[_BTH : max(_BTH, one.length - _ICRC - pad)]
        if size >= 0:
            try:
                self._packet(at, connection, host, opcode, psn & 0xFFFFFF, body, size)
            except struct.error:
                connection.dialogue.gap(at, "a packet was not captured whole")

    def forget_ended(self) -> None:
        """Forget connections that have ended."""
        self._requests = {k: v for k, v in self._requests.items() if not v.dialogue.ended}
        self._queues = {k: v for k, v in self._queues.items() if not v[0].dialogue.ended}

    # ---- the CM ----

    def _cm(self, at: At, one: Segment, mad: bytes) -> None:
        if mad[1] != _CM_CLASS:
            return
        (kind,) = struct.unpack_from(">H", mad, 16)
        body = mad[24:]
        ours, theirs = struct.unpack_from(">II", body)
        if kind == _REQ:
            self._request(at, one, body, ours)
            return
        if kind in (_REP, _REJ):
            connection = self._requests.get((one.target[0], theirs))
        else:
            connection = self._requests.get((one.source[0], ours)) or self._requests.get(
                (one.target[0], theirs)
            )
        if connection is None:
            return
        dialogue = connection.dialogue
        dialogue.packets += 1
        if kind == _REP and not dialogue.accepted:
            self._accepted(at, one, body, connection)
        elif kind == _REJ and not dialogue.rejected:
            (reason,) = struct.unpack_from(">H", body, 10)
            words = f"CM reason {reason} ({_REJECTS.get(reason, 'see IBTA 12.6.7.2')})"
            dialogue.refused(at, body[84:] if reason == 28 else b"", words)
        elif kind == _DREQ:
            who = "the host" if one.source[0] == dialogue.host[0] else "the target"
            dialogue.closed(at, f"{who} disconnects")

    def _request(self, at: At, one: Segment, body: bytes, ours: int) -> None:
        if (one.source[0], ours) in self._requests or len(self._requests) >= _CONNECTIONS_MOST:
            return
        service = int.from_bytes(body[8:16], "big")
        if service >> 16 != _SERVICE:
            return
        private = body[140:]
        (port,) = struct.unpack_from(">H", private, 2)
        dialogue = self._begin(at, (one.source[0], port), (one.target[0], service & 0xFFFF))
        dialogue.packets += 1
        code = body[50] >> 4
        connection = Connection(dialogue, 128 << code if 1 <= code <= 5 else 0)
        self._requests[one.source[0], ours] = connection
        queue = int.from_bytes(body[32:35], "big")
        # the starting PSN of a message is that of what its receiver will send
        connection.target.psn = int.from_bytes(body[44:47], "big")
        self._queues[one.source[0], queue] = (connection, False)
        words = f"QP {queue:#x}, path MTU {connection.mtu}, responder resources {body[35]}"
        words += f", initiator depth {body[39]}"
        dialogue.requested(at, private[_CMA:], words)

    def _accepted(self, at: At, one: Segment, body: bytes, connection: Connection) -> None:
        queue = int.from_bytes(body[12:15], "big")
        connection.host.psn = int.from_bytes(body[20:23], "big")
        self._queues[one.source[0], queue] = (connection, True)
        words = f"QP {queue:#x}, responder resources {body[24]}, initiator depth {body[25]}"
        connection.dialogue.replied(at, body[36:], words)

    # ---- RC ----

    def _packet(
        self, at: At, connection: Connection, host: bool, opcode: int, psn: int, body: bytes,
        size: int,
    ) -> None:  # fmt: skip
        side = connection.host if host else connection.target
        if opcode == _ACK or opcode in _RESPONSES:
            other = connection.target if host else connection.host
            self._answer(at, connection, other, host, opcode, psn, body, size)
        elif opcode == _READ_REQUEST:
            address, key, length = struct.unpack_from(">QII", body)
            count = max(1, -(-length // connection.mtu)) if connection.mtu else 0
            if self._fresh(at, connection, side, psn, count):
                side.answer = psn if side.answer is None else side.answer
                if host:
                    connection.dialogue.violation(
                        at,
                        f"the host sends an RDMA READ of {length} bytes: only controllers "
                        "transfer data by RDMA",
                        "RDMA Transport 1.0, 3.2",
                    )
                else:
                    connection.dialogue.read(at, key, address, length)
        elif opcode in _PARTS and self._fresh(at, connection, side, psn, 1):
            if opcode in _WRITES:
                self._write(at, connection, side, host, opcode, body, size)
            else:
                self._send(at, connection, side, host, opcode, body, size)
        elif opcode not in _PARTS and opcode != _ATOMIC_ACK:
            self._fresh(at, connection, side, psn, 1)  # NVMe-oF does not use it

    @staticmethod
    def _fresh(at: At, connection: Connection, side: Side, psn: int, count: int) -> bool:
        """Whether a request is new; count: PSNs that it takes, 0 if unknown."""
        if side.psn is not None:
            ahead = psn - side.psn & 0xFFFFFF
            if ahead >= _HALF:
                side.repeated += 1
                return False
            if ahead:
                connection.dialogue.gap(at, f"{ahead} packets before PSN {psn} are missing")
                side.message.clear()
                side.size = 0
        side.psn = psn + count & 0xFFFFFF if count else None
        return True

    @staticmethod
    def _send(
        at: At, connection: Connection, side: Side, host: bool, opcode: int, body: bytes, size: int
    ) -> None:
        part, key = _PARTS[opcode], None
        if opcode in _SEND_INVALIDATE:
            (key,) = struct.unpack_from(">I", body)
            body, size = body[4:], size - 4
        if part in (_FIRST, _ONLY):
            side.message.clear()
            side.size = 0
        side.message += body[: max(0, _MESSAGE_MOST - len(side.message))]
        side.size += size
        if part in (_LAST, _ONLY):
            connection.dialogue.sent(at, host, bytes(side.message), side.size, key)

    @staticmethod
    def _write(
        at: At, connection: Connection, side: Side, host: bool, opcode: int, body: bytes, size: int
    ) -> None:
        if _PARTS[opcode] in (_FIRST, _ONLY):
            side.address, side.key, _ = struct.unpack_from(">QII", body)
            body, size = body[16:], size - 16
        if host and size:
            connection.dialogue.violation(
                at,
                f"the host sends an RDMA WRITE of {size} bytes: only controllers transfer data by "
                "RDMA",
                "RDMA Transport 1.0, 3.2",
            )
        elif not host:
            connection.dialogue.write(at, side.key, side.address, body, size)
        side.address += size

    @staticmethod
    def _answer(
        at: At, connection: Connection, asker: Side, host: bool, opcode: int, psn: int,
        body: bytes, size: int,
    ) -> None:  # fmt: skip
        who = "the host" if host else "the target"
        if opcode == _ACK:
            syndrome = body[0] if body else 0
            if syndrome >> 5 == 1:
                connection.dialogue.remark(
                    at, f"{who} is not ready to receive (RNR NAK for PSN {psn})"
                )
            elif syndrome >> 5 == 3:
                name = _NAKS.get(syndrome & 31, f"NAK code {syndrome & 31}")
                connection.dialogue.remark(at, f"{who} refuses PSN {psn}: {name}")
            return
        if asker.answer is not None and psn - asker.answer & 0xFFFFFF >= _HALF:
            return  # a repeated response
        asker.answer = psn + 1 & 0xFFFFFF
        if _PARTS[opcode] != _MIDDLE:
            body, size = body[4:], size - 4
        if host:
            connection.dialogue.read_data(at, body, size)
