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
