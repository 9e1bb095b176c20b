# SPDX-License-Identifier: BSD-3-Clause
"""IwarpPeer: one iWARP connection over a plain socket; strict in receiving, free in sending."""

import contextlib
import socket
import time
from dataclasses import dataclass

from wire import mpa, rdmap
from wire.errors import ConnectionEnded, Rejected, WireViolation
from wire.memory import Memory
from wire.rdmap import Op, ReadRequest, Tagged, Terminate, Untagged

TIMEOUT = 60.0
"""Seconds after which a wait counts as a hang: no test asserts a speed."""
SEGMENT = 16384
"""Payload bytes in one segment that we send."""


@dataclass(frozen=True)
class Received:
    """A whole Send message."""

    op: int
    payload: bytes
    invalidated: int | None


@dataclass(frozen=True)
class Placed:
    """One segment of an RDMA WRITE, already in memory."""

    stag: int
    to: int
    size: int
    last: bool


@dataclass(frozen=True)
class ReadAsked:
    """An RDMA READ request of the other end; already answered if the peer answers reads."""

    request: ReadRequest


@dataclass(frozen=True)
class ReadDone:
    """All bytes of our RDMA READ have arrived."""

    data: bytes


Event = Received | Placed | ReadAsked | ReadDone | Terminate


class IwarpPeer:
    """A connected stream: sends as told, checks and collects what is received."""

    def __init__(self, sock: socket.socket, *, crc: bool = False) -> None:
        self.sock = sock
        self.crc = crc
        self.memory = Memory()
        self.serve_reads = True
        self.start: mpa.StartFrame | None = None
        """The other end's MPA frame."""
        self.received = b""
        """Bytes received and not decoded yet."""
        self.msn = {rdmap.QN_SEND: 1, rdmap.QN_READ: 1, rdmap.QN_TERMINATE: 1}
        """The next MSN of each queue on which we send."""
        self.expected = {rdmap.QN_SEND: 1, rdmap.QN_READ: 1, rdmap.QN_TERMINATE: 1}
        self.partial: tuple[int, int, bytes] | None = None
        self.sink: tuple[ReadRequest, bytearray] | None = None
        self.frames = 0
        """FPDUs received."""
        sock.settimeout(TIMEOUT)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # ---- MPA ----

    @classmethod
    def connect(
        cls,
        address: tuple[str, int],
        private_data: bytes,
        *,
        crc: bool = False,
        ird: int = 128,
        ord_: int = 0,
        revision: int = 2,
        pause: float = 0.002,
    ) -> "IwarpPeer":
        """Connect as siw's initiator does; raises Rejected with the reply's private data."""
        peer = cls(socket.create_connection(address, TIMEOUT))
        bits = revision | (mpa.CRC if crc else 0)
        if revision >= 2:
            bits |= mpa.ENHANCED
            private_data = mpa.enhanced_data(ird, ord_, private_data)
        peer.sock.sendall(mpa.StartFrame(False, bits, private_data).encode())
        try:
            reply = peer.receive_start()
        except BaseException:
            peer.close()
            raise
        peer.check_reply(reply, bits)
        if reply.bits & mpa.REJECT:
            peer.close()
            raise Rejected(reply.application_data)
        peer.crc = bool(reply.bits & mpa.CRC)
        time.sleep(pause)
        return peer

    def check_reply(self, reply: mpa.StartFrame, bits: int) -> None:
        """Check a reply to bits by RFC 5044 7.1.1 and RFC 6581 9."""
        if not reply.reply:
            raise WireViolation("an MPA Request came for a Reply")
        if reply.revision != bits & mpa.REVISION_MASK:
            raise WireViolation(f"MPA reply revision {reply.revision}")
        if reply.bits & mpa.MARKERS:
            raise WireViolation("the MPA reply asks for markers")
        if bits & mpa.CRC and not reply.bits & (mpa.CRC | mpa.REJECT):
            raise WireViolation("CRC was asked for and not confirmed (RFC 5044 7.1.1)")
        if bool(bits & mpa.ENHANCED) != reply.enhanced:
            raise WireViolation("the reply's S bit is not the request's (RFC 6581 9)")

    def receive_start(self) -> mpa.StartFrame:
        """Wait for an MPA frame."""
        while (found := mpa.decode_start(self.received)) is None:
            self._fill(time.monotonic() + TIMEOUT)
        self.start, size = found
        self.received = self.received[size:]
        return self.start

    def reply(self, *, private_data: bytes = b"", reject: bool = False, ird: int = 128,
              ord_: int = 128) -> None:  # fmt: skip
        """Answer the request in start as a responder."""
        assert self.start is not None
        bits = self.start.bits & (mpa.CRC | mpa.ENHANCED | mpa.REVISION_MASK)
        self.crc = bool(bits & mpa.CRC) and not reject
        if bits & mpa.ENHANCED:
            private_data = mpa.enhanced_data(ird, ord_, private_data)
        bits |= mpa.REJECT if reject else 0
        self.sock.sendall(mpa.StartFrame(True, bits, private_data).encode())

    # ---- sending ----

    def send_raw(self, data: bytes) -> None:
        """Send any bytes."""
        self.sock.sendall(data)

    def send_ulpdu(self, ulpdu: bytes) -> None:
        """One segment in one FPDU."""
        self.sock.sendall(mpa.encode_fpdu(ulpdu, self.crc))

    def send(self, payload: bytes, *, op: int = Op.SEND, invalidate: int = 0,
             segment: int = SEGMENT) -> None:  # fmt: skip
        """One Send message."""
        msn = self.msn[rdmap.QN_SEND]
        self.msn[rdmap.QN_SEND] = msn + 1 & 0xFFFFFFFF
        for mo in range(0, max(1, len(payload)), segment):
            part = payload[mo : mo + segment]
            last = mo + segment >= len(payload)
            self.send_ulpdu(
                rdmap.encode_untagged(op, part, msn=msn, mo=mo, rsvd=invalidate, last=last)
            )

    def write(self, stag: int, to: int, payload: bytes, *, segment: int = SEGMENT) -> None:
        """One RDMA WRITE message."""
        self._tagged(Op.WRITE, stag, to, payload, segment)

    def _tagged(self, op: int, stag: int, to: int, payload: bytes, segment: int) -> None:
        for offset in range(0, max(1, len(payload)), segment):
            part = payload[offset : offset + segment]
            last = offset + segment >= len(payload)
            self.send_ulpdu(rdmap.encode_tagged(op, stag, to + offset, part, last=last))

    def read_request(self, request: ReadRequest) -> None:
        """Send an RDMA READ request; the answer is checked against it and becomes a ReadDone."""
        msn = self.msn[rdmap.QN_READ]
        self.msn[rdmap.QN_READ] = msn + 1 & 0xFFFFFFFF
        self.sink = (request, bytearray())
        self.send_ulpdu(
            rdmap.encode_untagged(Op.READ_REQUEST, request.encode(), msn=msn, qn=rdmap.QN_READ)
        )

    def answer_read(self, request: ReadRequest, data: bytes | None = None) -> None:
        """The Read Response, from memory unless data is given."""
        if data is None:
            data = self.memory.read(request.source_stag, request.source_to, request.size)
        self._tagged(Op.READ_RESPONSE, request.sink_stag, request.sink_to, data, SEGMENT)

    def terminate(self, layer: int, etype: int, code: int) -> None:
        """A Terminate message without headers."""
        body = rdmap.encode_terminate(layer, etype, code)
        self.send_ulpdu(rdmap.encode_untagged(Op.TERMINATE, body, msn=1, qn=rdmap.QN_TERMINATE))

    # ---- receiving ----

    def event(self, timeout: float = TIMEOUT) -> Event:
        """Return the next event; raises ConnectionEnded, or TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            event = self.feed(self.ulpdu(deadline))
            if event is not None:
                return event

    def ulpdu(self, deadline: float) -> bytes:
        """Return the content of the next FPDU."""
        while (found := mpa.decode_fpdu(self.received, self.crc)) is None:
            self._fill(deadline)
        ulpdu, size = found
        self.received = self.received[size:]
        self.frames += 1
        return ulpdu

    def _fill(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing came; {len(self.received)} bytes are incomplete")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(262144)
        except ConnectionError as error:
            raise ConnectionEnded(str(error)) from None
        finally:
            with contextlib.suppress(OSError):
                self.sock.settimeout(TIMEOUT)
        if not data:
            if self.received:
                raise ConnectionEnded(f"closed within a frame: {self.received[:64].hex()}")
            raise ConnectionEnded("closed")
        self.received += data

    def feed(self, ulpdu: bytes) -> Event | None:
        """Handle one segment, checked against the stream's state; return an event if it causes
        one.
        """
        segment = rdmap.decode(ulpdu)
        if isinstance(segment, Tagged):
            return self._take_tagged(segment)
        return self._take_untagged(segment)

    def _take_tagged(self, segment: Tagged) -> Event | None:
        if segment.op == Op.WRITE:
            if segment.payload:
                self.memory.write(segment.stag, segment.to, segment.payload)
            return Placed(segment.stag, segment.to, len(segment.payload), segment.last)
        if self.sink is None:
            raise WireViolation("a Read Response that nobody asked for")
        request, data = self.sink
        if segment.stag != request.sink_stag or segment.to != request.sink_to + len(data):
            raise WireViolation(f"Read Response to {segment.stag:#x}:{segment.to:#x}")
        data += segment.payload
        if segment.last != (len(data) == request.size) or len(data) > request.size:
            raise WireViolation(f"Read Response of {len(data)} bytes, not {request.size}")
        if not segment.last:
            return None
        self.sink = None
        return ReadDone(bytes(data))

    def _take_untagged(self, segment: Untagged) -> Event | None:
        if segment.msn != self.expected[segment.qn]:
            raise WireViolation(f"MSN {segment.msn}, not {self.expected[segment.qn]}")
        if segment.qn == rdmap.QN_SEND:
            return self._take_send(segment)
        self.expected[segment.qn] += 1
        if segment.mo or not segment.last:
            raise WireViolation("a Read Request or Terminate of several segments")
        if segment.op == Op.TERMINATE:
            return rdmap.decode_terminate(segment.payload)
        request = rdmap.decode_read_request(segment.payload)
        if self.serve_reads:
            self.answer_read(request)
        return ReadAsked(request)

    def _take_send(self, segment: Untagged) -> Event | None:
        op, rsvd, payload = self.partial or (segment.op, segment.rsvd, b"")
        if (op, rsvd, len(payload)) != (segment.op, segment.rsvd, segment.mo):
            raise WireViolation(f"segment does not continue its message: {segment}")
        payload += segment.payload
        if not segment.last:
            self.partial = (op, rsvd, payload)
            return None
        self.partial = None
        self.expected[rdmap.QN_SEND] = self.expected[rdmap.QN_SEND] + 1 & 0xFFFFFFFF
        if op not in (Op.SEND_INVALIDATE, Op.SEND_SE_INVALIDATE):
            return Received(op, payload, None)
        self.memory.invalidate(rsvd)
        return Received(op, payload, rsvd)

    def ending(self, timeout: float = TIMEOUT) -> Terminate | None:
        """Read until the other end closes; return its Terminate, or None if it sent none."""
        found: Terminate | None = None
        deadline = time.monotonic() + timeout
        try:
            while True:
                event = self.event(max(0.0, deadline - time.monotonic()))
                if isinstance(event, Terminate):
                    found = event
                elif found is not None:
                    raise WireViolation(f"{event} after a Terminate (RFC 5040 4.8)")
        except ConnectionEnded:
            return found

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def reset(self) -> None:
        """Close with RST, like a host that dies."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()
