# SPDX-License-Identifier: BSD-3-Clause
"""Damaged, truncated and invented captures: a sentence, bounded work, and never an exception."""

from __future__ import annotations

import contextlib
import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.capture.container import Packet
from nvmf.capture.errors import CaptureError
from nvmf.capture.explain import Explained, Explainer, explain
from nvmf.capture.words import as_json, head, rows, sentence, totals
from support import pcaps
from support.pcaps import HOST, TARGET, Exchange
from wire.nvme import Admin


def whole() -> Exchange:
    good = Exchange(crc=True)
    good.begin()
    good.connect()
    good.command(Admin.IDENTIFY, 1, cdw10=1, length=4096, kind=0x4F)
    good.write(0x11, 0x1000, bytes(4096))
    good.respond(1, key=0x11)
    good.raw(True, b"", 0x11)
    return good


PACKETS = whole().packets
FILES = (pcaps.pcap(PACKETS), pcaps.pcapng(PACKETS))


def every_word(found: Explained) -> None:
    """Produce all text and JSON output for a file."""
    as_json(found)
    for one in found.dialogues:
        head(one)
        list(rows(one, found.began))
        list(totals(one))
        for fault in one.faults:
            assert sentence(fault, found.began)
        for command in one.commands:
            command.content()


def survives(data: bytes) -> None:
    """A file is explained, or refused with a sentence."""
    with contextlib.suppress(CaptureError):
        every_word(explain(data, keep=True))


@pytest.mark.parametrize("data", FILES, ids=("pcap", "pcapng"))
def test_cut_anywhere(data: bytes) -> None:
    """Packets before the cut are read, and a damaged file is reported as such."""
    full = explain(data)
    for end in [*range(4, 300), *range(300, len(data), 97)]:
        found = explain(data[:end])
        assert found.packets <= full.packets
        every_word(found)
        if found.packets and not found.notes:
            again = explain(data[:end])
            assert again.packets == found.packets
    assert "ends in a" in explain(data[:-3]).notes[0]


@given(st.sampled_from(FILES), st.data())
def test_bytes_changed(data: bytes, choose: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(choose.draw(st.integers(1, 6))):
        at = choose.draw(st.integers(0, len(changed) - 1))
        changed[at] = choose.draw(st.integers(0, 255))
    survives(bytes(changed))


@given(st.binary(max_size=400), st.sampled_from((b"", FILES[0][:24], FILES[1][:60])))
def test_any_bytes(data: bytes, before: bytes) -> None:
    survives(before + data)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=200)), max_size=8))
def test_any_frames(frames: list[tuple[bool, bytes]]) -> None:
    """Any FPDUs after a valid beginning."""
    exchange = Exchange()
    exchange.begin()
    for host, ulpdu in frames:
        exchange.fpdu(host, ulpdu)
    survives(pcaps.pcap(exchange.packets))


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=200)), max_size=8))
def test_any_capsules(capsules: list[tuple[bool, bytes]]) -> None:
    exchange = Exchange()
    exchange.begin()
    exchange.connect()
    for host, capsule in capsules:
        exchange.send(host, capsule)
    survives(pcaps.pcap(exchange.packets))


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 2**32 - 1), st.binary(max_size=80)), max_size=10
    )
)
def test_any_segments(segments: list[tuple[bool, int, bytes]]) -> None:
    """Random sequence numbers, also around their wrap."""
    packets = [
        pcaps.tcp(*((HOST, TARGET) if host else (TARGET, HOST)), seq, data)
        for host, seq, data in segments
    ]
    survives(pcaps.pcap(packets))


@given(st.sampled_from((0, 1, 12, 101, 113, 276, 228, 999)), st.binary(max_size=120))
def test_any_packet(link: int, data: bytes) -> None:
    explainer = Explainer()
    explainer.feed(Packet(1, 0, link, data, len(data)))
    every_word(explainer.finish())


def mad(kind: int, body: bytes) -> bytes:
    return bytes([1, 7, 2, 3]) + bytes(12) + struct.pack(">H", kind) + bytes(6) + body


def roce(opcode: int, queue: int, psn: int, body: bytes, source: str, target: str) -> bytes:
    """Return an IPv4 packet of RoCEv2, with an ICRC of 0."""
    bth = struct.pack(">BBHII", opcode, 0, 0xFFFF, queue, psn)
    udp = bth + body + bytes(4)
    head_ = struct.pack(">HHHH", 50000, 4791, len(udp) + 8, 0)
    total = 20 + 8 + len(udp)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, 17, 0)
    ends = b"".join(bytes(int(p) for p in one.split(".")) for one in (source, target))
    return ip + ends + head_ + udp


def established() -> list[bytes]:
    """REQ and REP of a connection over RoCEv2: queue pairs 5 and 6."""
    request = bytearray(232)
    request[0:4] = b"\0\0\0\1"
    request[8:16] = (0x0106 << 16 | 4420).to_bytes(8, "big")
    request[32:35] = b"\0\0\5"
    request[50] = 0x30
    request[140 + 36 : 140 + 68] = b"\0\0\0\0\x20\0\x1f\0" + bytes(24)
    reply = bytearray(232)
    reply[0:8] = b"\0\0\0\2\0\0\0\1"
    reply[12:15] = b"\0\0\6"
    deth = bytes(8)
    return [
        roce(0x64, 1, 0, deth + mad(0x10, bytes(request)), "10.0.0.1", "10.0.0.2"),
        roce(0x64, 1, 0, deth + mad(0x13, bytes(reply)), "10.0.0.2", "10.0.0.1"),
    ]


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(
                (0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 17, 0x16, 0x17, 0x1C, 0x81, 99)
            ),
            st.integers(0, 4),
            st.binary(max_size=90),
        ),
        max_size=8,
    )
)
def test_any_packets_of_roce(packets: list[tuple[bool, int, int, bytes]]) -> None:
    made = established()
    for host, opcode, psn, body in packets:
        ends = ("10.0.0.1", "10.0.0.2") if host else ("10.0.0.2", "10.0.0.1")
        made.append(roce(opcode, 6 if host else 5, psn, body, *ends))
    found = explain(pcaps.pcap(made))
    assert len(found.dialogues) == 1
    every_word(found)


def test_roce_connection() -> None:
    """The handshake, a gap and a NAK over RoCEv2."""
    packets = established()
    packets.append(roce(0x04, 6, 0, bytes(1) + b"\x40" + bytes(62), "10.0.0.1", "10.0.0.2"))
    packets.append(roce(0x04, 6, 0, bytes(1) + b"\x40" + bytes(62), "10.0.0.1", "10.0.0.2"))
    packets.append(roce(0x81, 0x40000005, 0, bytes(16), "10.0.0.2", "10.0.0.1"))  # CNP
    packets.append(roce(0x11, 5, 1, b"\x62\0\0\0", "10.0.0.2", "10.0.0.1"))
    packets.append(roce(0x04, 6, 7, bytes(1) + b"\x40" + bytes(62), "10.0.0.1", "10.0.0.2"))
    (dialogue,) = explain(pcaps.pcap(packets)).dialogues
    said = [one.sentence for one in dialogue.faults]
    assert dialogue.target == ("10.0.0.2", 4420)
    assert len(dialogue.commands) == 2  # the repeated packet is not a command
    assert "the target refuses PSN 1: remote access error" in said
    assert "6 packets before PSN 7 are missing" in said


def test_compressed(tmp_path: Path) -> None:
    packed = gzip.compress(FILES[0])
    assert explain(packed).packets == explain(FILES[0]).packets
    assert "cut off" in explain(packed[:-20]).notes[0]


def test_huge_claims() -> None:
    """No memory is allocated for lengths that a file only claims."""
    huge = FILES[0][:24] + struct.pack("<4I", 0, 0, 0xFFFFFFF0, 0xFFFFFFF0)
    assert "claims 4294967280 bytes" in explain(huge).notes[0]
    block = FILES[1][:28] + struct.pack("<II", 6, 0xFFFFFFFC)
    assert "claims 4294967292 bytes" in explain(block + bytes(40)).notes[0]
