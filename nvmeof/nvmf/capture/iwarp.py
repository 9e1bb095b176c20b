# SPDX-License-Identifier: BSD-3-Clause
"""iWARP: TCP segments in order, MPA, DDP and RDMAP (RFC 5040, 5041, 5044, 6581)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from nvmf.capture.crc import crc32c
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.fault import At
from nvmf.capture.network import Segment

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
MARKERS, CRC, REJECT, ENHANCED, RESERVED = 0x8000, 0x4000, 0x2000, 0x1000, 0x0700
_START = 20
_EARLY_MOST = 4 << 20
"""Bytes of a direction that wait for missing ones, before these are given up."""
_CRC_MOST = 4096
"""The CRC of larger FPDUs is not verified: this is Python."""
_MESSAGE_MOST = 1 << 20
_WRITE, _READ_REQUEST, _READ_RESPONSE, _TERMINATE = 0, 1, 2, 7
_SENDS = (3, 4, 5, 6)
_LAYERS = {0: "RDMAP", 1: "DDP", 2: "MPA"}


@dataclass(slots=True)
class Stream:
    """One direction of a connection: bytes in order, with holes for those not captured."""

    next: int | None = None
    """Expected sequence number; None before the first segment."""
    data: bytearray = field(default_factory=bytearray)
    early: dict[int, bytes] = field(default_factory=dict)
    waiting: int = 0
    """Bytes in early."""
    lost: bool = False
    """The position in the frames is not known."""
    started: bool = False
    """Whether the MPA frame has passed."""
    msn: dict[int, int] = field(default_factory=dict)
    """Expected message sequence number of each queue."""
    message: bytearray = field(default_factory=bytearray)
    """The Send that is not complete."""
    offset: int = 0
    """Bytes of the Send so far."""

    def lose(self) -> None:
        """Forget everything that depends on missing bytes."""
        self.lost = True
        self.data.clear()
        self.message.clear()
        self.offset = 0
        self.msn.clear()


class Connection:
    """Both directions, and the dialogue that they make."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self._host, self._target = Stream(), Stream()
        self._asked_crc = self.crc = False
        self._spoken = False
        """Whether the host has sent an FPDU."""

    def segment(self, at: At, one: Segment) -> None:
        """Take a TCP segment."""
        host = one.source == self.dialogue.host
        stream = self._host if host else self._target
        if one.syn:
            stream.next = one.seq + 1 & 0xFFFFFFFF
            return
        if one.flags & 0x10:
            self._acknowledged(at, not host, one.ack)
        if one.length:
            self._bytes(at, host, stream, one)
            self.dialogue.waiting = bool(self._host.early or self._target.early)
        if one.fin:
            who = "the host" if host else "the target"
            self.dialogue.closed(at, f"{who} {'resets' if one.flags & 4 else 'closes'} it")

    def _bytes(self, at: At, host: bool, stream: Stream, one: Segment) -> None:
        if stream.next is None:
            stream.next = one.seq
        # bytes that were not captured are replaced by zeroes, unless frames begin among them
        payload = one.payload
        if len(payload) < one.length:
            payload = payload.ljust(one.length, b"\0")
        behind = stream.next - one.seq & 0xFFFFFFFF
        if behind < 1 << 31:
            self._in_order(at, host, stream, payload[behind:], len(one.payload) - behind)
        elif one.seq not in stream.early or len(stream.early[one.seq]) < len(payload):
            stream.waiting += len(payload) - len(stream.early.get(one.seq, b""))
            stream.early[one.seq] = payload
            if stream.waiting > _EARLY_MOST:
                self._give_up(at, host, stream)
        self._due(at, host, stream)

    def _due(self, at: At, host: bool, stream: Stream) -> None:
        """Process early bytes that are next now."""
        while stream.early and stream.next is not None:
            for seq in stream.early:
                behind = stream.next - seq & 0xFFFFFFFF
                if behind < 1 << 31:
                    payload = stream.early.pop(seq)
                    stream.waiting -= len(payload)
                    self._in_order(at, host, stream, payload[behind:], len(payload) - behind)
                    break
            else:
                return

    def _acknowledged(self, at: At, host: bool, ack: int) -> None:
        """Give up missing bytes, which the receiver has and the capture lacks."""
        stream = self._host if host else self._target
        if stream.next is None or not stream.early:
            return
        base = stream.next
        first = min(seq - base & 0xFFFFFFFF for seq in stream.early)
        if first <= (ack - base & 0xFFFFFFFF) < 1 << 31:
            self._give_up(at, host, stream)
            self._due(at, host, stream)

    def finish(self, at: At) -> None:
        """Give up missing bytes at the end of the capture."""
        for host, stream in ((True, self._host), (False, self._target)):
            while stream.early:
                self._give_up(at, host, stream)
                self._due(at, host, stream)

    def _give_up(self, at: At, host: bool, stream: Stream) -> None:
        """Continue after missing bytes."""
        assert stream.next is not None
        base = stream.next
        first = min(stream.early, key=lambda seq: seq - base & 0xFFFFFFFF)
        missing = first - base & 0xFFFFFFFF
        who = "the host" if host else "the target"
        self.dialogue.gap(at, f"{missing} bytes of {who} are not in the capture")
        stream.next = first
        stream.lose()

    def _in_order(self, at: At, host: bool, stream: Stream, payload: bytes, captured: int) -> None:
        if not payload:
            return
        assert stream.next is not None
        stream.next = stream.next + len(payload) & 0xFFFFFFFF
        if captured < len(payload) and not stream.lost:
            self.dialogue.gap(at, "a segment was not captured whole")
            stream.lose()
            return
        if stream.lost or not (stream.started or stream.data):
            self._resume(stream, payload)
        stream.data += payload
        self._frames(at, host, stream)

    def _resume(self, stream: Stream, payload: bytes) -> None:
        """After missing bytes, find a segment that looks like the beginning of frames."""
        if stream.data:
            return
        if payload[:4] == REQUEST[:4]:
            stream.started = stream.lost = False
        elif len(payload) >= 4 and _looks_like_fpdu(payload):
            stream.started, stream.lost = True, False

    def _frames(self, at: At, host: bool, stream: Stream) -> None:
        data = stream.data
        if stream.lost:
            data.clear()
            return
        if not stream.started and not self._start(at, host, stream):
            return
        position = 0
        while len(data) - position >= 2:
            (length,) = struct.unpack_from(">H", data, position)
            size = (2 + length + 3) // 4 * 4 + 4
            if len(data) - position < size:
                break
            frame = bytes(data[position : position + size])
            position += size
            if not self._fpdu(at, host, stream, frame, length):
                stream.lost = True
                stream.data.clear()
                return
        del data[:position]

    # ---- MPA ----

    def _start(self, at: At, host: bool, stream: Stream) -> bool:
        """Take the start frame; whether FPDUs can follow."""
        data, dialogue = stream.data, self.dialogue
        if len(data) < _START:
            return False
        expected = REQUEST if host else REPLY
        if bytes(data[:16]) != expected:
            dialogue.violation(
                at,
                f"{'the host' if host else 'the target'} begins with {bytes(data[:16])!r}, not "
                f"with {expected.decode()!r}",
                "RFC 5044 7.1.1",
            )
            stream.lost = True
            data.clear()
            return False
        bits, size = struct.unpack_from(">HH", data, 16)
        if size > 512:
            dialogue.violation(
                at, f"{size} bytes of private data, and at most 512 are allowed", "RFC 5044 7.1.1"
            )
            stream.lost = True
            data.clear()
            return False
        if len(data) < _START + size:
            return False
        private = bytes(data[_START : _START + size])
        del data[: _START + size]
        stream.started = True
        self._negotiated(at, host, bits, private)
        return True

    def _negotiated(self, at: At, host: bool, bits: int, private: bytes) -> None:
        dialogue = self.dialogue
        words = f"MPA revision {bits & 0xFF}, CRC {'on' if bits & CRC else 'off'}"
        if bits & MARKERS:
            words += ", markers"
        if bits & RESERVED:
            dialogue.violation(at, f"reserved bits of MPA are set: {bits:#06x}", "RFC 5044 7.1.1")
        if bits & ENHANCED:
            if len(private) < 4:
                dialogue.violation(at, "an enhanced MPA frame has no IRD and ORD", "RFC 6581 9.1")
            else:
                ird, ord_ = struct.unpack_from(">HH", private)
                words += f", IRD {ird & 0x3FFF}, ORD {ord_ & 0x3FFF}"
                private = private[4:]
        if host:
            self._asked_crc = bool(bits & CRC)
            dialogue.requested(at, private, words)
            return
        self.crc = bool(bits & CRC) or self._asked_crc
        if self._asked_crc and not bits & CRC:
            dialogue.violation(
                at, "the reply has CRC off, and the request asked for it", "RFC 5044 7.1.1"
            )
        if bits & REJECT:
            dialogue.refused(at, private, words)
        else:
            dialogue.replied(at, private, words)

    def _fpdu(self, at: At, host: bool, stream: Stream, frame: bytes, length: int) -> bool:
        """Take a whole FPDU; whether the position of the next one can be trusted."""
        dialogue = self.dialogue
        who = "the host" if host else "the target"
        if host:
            self._spoken = True
        elif not self._spoken and dialogue.whole:
            dialogue.violation(
                at, "the target sends an FPDU before the host's first one", "RFC 5044 7.1.2"
            )
        if any(frame[2 + length : -4]):
            dialogue.violation(at, f"the padding of an FPDU of {who} is not 0", "RFC 5044 4.1")
        if self.crc and len(frame) <= _CRC_MOST:
            (said,) = struct.unpack("<I", frame[-4:])
            if said != crc32c(frame[:-4]):
                dialogue.violation(
                    at, f"the CRC of an FPDU of {who} is {said:#010x}, and wrong", "RFC 5044 4.4"
                )
        return self._ddp(at, host, stream, frame[2 : 2 + length])

    # ---- DDP and RDMAP ----

    def _ddp(self, at: At, host: bool, stream: Stream, ulpdu: bytes) -> bool:
        dialogue = self.dialogue
        if len(ulpdu) < 14:
            dialogue.violation(at, f"a DDP segment has {len(ulpdu)} bytes", "RFC 5041 4.1")
            return False
        (control,) = struct.unpack_from(">H", ulpdu)
        opcode = control & 15
        if control & 0x0300 != 0x0100:
            dialogue.violation(at, f"the DDP version is {control >> 8 & 3}, not 1", "RFC 5041 4.1")
            return False
        if control & 0x00C0 != 0x0040:
            version = control >> 6 & 3
            dialogue.violation(at, f"the RDMAP version is {version}, not 1", "RFC 5040 4.1")
            return False
        if control & 0x8000:
            return self._tagged(at, host, ulpdu, opcode)
        if len(ulpdu) < 18:
            dialogue.violation(at, f"an untagged segment has {len(ulpdu)} bytes", "RFC 5041 4.3")
            return False
        return self._untagged(at, host, stream, ulpdu, control)

    def _tagged(self, at: At, host: bool, ulpdu: bytes, opcode: int) -> bool:
        key, address = struct.unpack_from(">IQ", ulpdu, 2)
        if opcode == _READ_RESPONSE and host:
            self.dialogue.read_data(at, ulpdu[14:], len(ulpdu) - 14)
        elif opcode == _WRITE and not host:
            self.dialogue.write(at, key, address, ulpdu[14:], len(ulpdu) - 14)
        elif opcode == _WRITE and len(ulpdu) > 14:
            self.dialogue.violation(
                at,
                f"the host sends an RDMA WRITE of {len(ulpdu) - 14} bytes: only controllers "
                "transfer data by RDMA",
                "RDMA Transport 1.0, 3.2",
            )
        elif opcode not in (_WRITE, _READ_RESPONSE):
            self.dialogue.violation(at, f"opcode {opcode} in a tagged segment", "RFC 5040 4.3")
        return True

    def _untagged(self, at: At, host: bool, stream: Stream, ulpdu: bytes, control: int) -> bool:
        dialogue, opcode, last = self.dialogue, control & 15, bool(control & 0x4000)
        key, queue, msn, offset = struct.unpack_from(">4I", ulpdu, 2)
        right = 0 if opcode in _SENDS else opcode if opcode == _READ_REQUEST else 2
        if opcode not in (*_SENDS, _READ_REQUEST, _TERMINATE) or queue != right:
            dialogue.violation(at, f"opcode {opcode} on queue {queue}", "RFC 5040 4.3")
            return False
        expected = stream.msn.get(queue)
        if expected is None and dialogue.whole:
            expected = 1
        if expected is not None and msn != expected:
            dialogue.violation(
                at, f"MSN {msn} on queue {queue}, where {expected} is next", "RFC 5041 5.1"
            )
        stream.msn[queue] = (msn + last) & 0xFFFFFFFF
        payload = ulpdu[18:]
        if opcode == _TERMINATE:
            self._terminate(at, host, payload)
        elif opcode == _READ_REQUEST:
            self._read_request(at, host, payload)
        else:
            if offset != stream.offset:
                dialogue.violation(
                    at,
                    f"message offset {offset} in a Send of which {stream.offset} bytes came",
                    "RFC 5041 4.3",
                )
            stream.message += payload[: max(0, _MESSAGE_MOST - len(stream.message))]
            stream.offset += len(payload)
            if last:
                message, size = bytes(stream.message), stream.offset
                stream.message.clear()
                stream.offset = 0
                dialogue.sent(at, host, message, size, key if opcode in (4, 6) else None)
        return True

    def _read_request(self, at: At, host: bool, payload: bytes) -> None:
        if len(payload) != 28:
            self.dialogue.violation(
                at, f"a Read Request has {len(payload)} bytes, not 28", "RFC 5040 4.4"
            )
            return
        _, _, size, key, address = struct.unpack(">IQIIQ", payload)
        if not host:
            self.dialogue.read(at, key, address, size)
        elif size:
            self.dialogue.violation(
                at,
                f"the host sends an RDMA READ of {size} bytes: only controllers transfer data by "
                "RDMA",
                "RDMA Transport 1.0, 3.2",
            )

    def _terminate(self, at: At, host: bool, payload: bytes) -> None:
        who = "the host" if host else "the target"
        if len(payload) < 4:
            self.dialogue.violation(at, f"a Terminate has {len(payload)} bytes", "RFC 5040 4.8")
            return
        (word,) = struct.unpack_from(">I", payload)
        layer = _LAYERS.get(word >> 28, f"layer {word >> 28}")
        self.dialogue.remark(
            at,
            f"{who} sends a Terminate: error of {layer}, type {word >> 24 & 15}, code "
            f"{word >> 16 & 255:02x}h",
        )
        self.dialogue.closed(at, f"{who} terminates it")


def _looks_like_fpdu(data: bytes) -> bool:
    (length, control) = struct.unpack_from(">HH", data)
    return bool(length >= 14 and control & 0x03C0 == 0x0140 and not control & 0x3C30)
