# SPDX-License-Identifier: BSD-3-Clause
"""The recorder: processes that send anything, several at once, and what is kept of the last
seconds.
"""

from __future__ import annotations

import io
import socket
import struct

from hypothesis import given
from hypothesis import strategies as st

from nvmf.capture.explain import explain
from nvmf.capture.label import commented
from nvmf.capture.record import Recorder
from support import pcaps
from support.pcaps import Exchange
from wire.nvme import Admin

SECTION = struct.pack("=IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)


def exchange(fails: bool) -> list[bytes]:
    one = Exchange()
    one.begin()
    one.connect()
    one.command(Admin.GET_LOG_PAGE, 1, cdw10=0x33)
    one.respond(1, 0x4109 if fails else 0)
    return one.packets


def sent(recorder: Recorder, *streams: bytes) -> None:
    """Send streams of as many processes, whose turns alternate."""
    processes = []
    for _ in streams:
        process = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        process.connect("\0" + recorder.name[1:])
        processes.append(process)
        recorder.step(1)
    for at in range(0, max(map(len, streams)), 1000):
        for process, data in zip(processes, streams, strict=True):
            try:
                process.sendall(data[at : at + 1000])
            except OSError:
                continue  # it was refused
            recorder.step(0)
    for process in processes:
        process.close()
    while recorder.connected:
        recorder.step(1)


@given(st.binary(max_size=300), st.booleans())
def test_a_process_that_sends_anything(data: bytes, after: bool) -> None:
    """A process that sends invalid data is disconnected, and the file is complete."""
    out = io.BytesIO()
    recorder = Recorder(out, until_error=True)
    sent(recorder, SECTION + data if after else data)
    recorder.close()
    found = explain(out.getvalue())
    assert not [note for note in found.notes if "byte" in note and "malformed" not in note]


def test_two_processes() -> None:
    """Each process has its own interface."""
    out = io.BytesIO()
    recorder = Recorder(out)
    packets = exchange(False)
    sent(recorder, pcaps.pcapng(packets), pcaps.pcapng(packets))
    recorded = recorder.close()
    assert (recorded.processes, recorded.packets) == (2, 2 * len(packets))
    assert recorded.bytes == len(out.getvalue())
    found = explain(out.getvalue())
    assert found.packets == 2 * len(packets)
    assert found.violations == 0
    assert not found.notes


def synthesised(packets: list[bytes], first: int) -> bytes:
    """Return what a process sends whose packets are synthesised, from a time on."""
    stream = pcaps.pcapng(packets)
    head, at = stream[:48], 48  # a section and an interface
    while at < len(stream):
        (size,) = struct.unpack_from("=I", stream, at + 4)
        block = bytearray(stream[at : at + size])
        (when,) = struct.unpack_from("=I", block, 16)
        struct.pack_into("=I", block, 16, when + first)
        head += commented(bytes(block), "synthesised from a test")
        at += size
    return head


def test_both_ends_are_synthesised() -> None:
    """One of two processes with the two ends of a connection is recorded; and after its end, a
    connection with the same ports, by any of them.
    """
    out = io.BytesIO()
    recorder = Recorder(out)
    one = Exchange(seqs={True: 0, False: 1})
    one.raw(True, b"", 0x02)
    one.seqs[True] = 1
    one.begin()
    one.connect()
    one.raw(True, b"", 0x11)
    packets, later = one.packets, 1_000_000
    sent(recorder, synthesised(packets, 0), synthesised(packets, 0))
    assert recorder.recorded.packets == len(packets)
    sent(recorder, synthesised(packets, later))
    recorded = recorder.close()
    assert (recorded.processes, recorded.packets) == (3, 2 * len(packets))
    found = explain(out.getvalue())
    assert found.violations == 0
    assert [bool(one.subnqn and one.synthesised) for one in found.dialogues] == [True, True]


def test_until_an_error() -> None:
    for fails in (False, True):
        recorder = Recorder(io.BytesIO(), until_error=True)
        sent(recorder, pcaps.pcapng(exchange(fails)))
        assert ("fails: Invalid Log Page" in recorder.close().stopped) == fails


def test_the_last_seconds() -> None:
    """Older packets are forgotten, as are those beyond the size."""
    packets = exchange(False) * 100  # a microsecond of the file each is 1 ms of the packets
    for last, most in ((0.000_2, 0), (1000.0, 4000)):
        out = io.BytesIO()
        recorder = Recorder(out, last=last, most=most)
        sent(recorder, pcaps.pcapng(packets))
        recorded = recorder.close()
        assert 0 < recorded.packets < len(packets)
        assert explain(out.getvalue()).packets == recorded.packets
        if most:
            assert recorded.bytes <= most
