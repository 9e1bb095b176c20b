# SPDX-License-Identifier: BSD-3-Clause
"""The embedded device's counts of its objects."""

from __future__ import annotations

import gc
import subprocess
import sys

from nvmf import engine


def test_memory_is_counted() -> None:
    """A region is counted from its registration until its memory is closed."""
    device = engine.HostDevice("iwarp")
    with device.register(bytearray(4096)):  # the first one creates the device's own objects
        before = engine.resources()
        assert set(before) == {"pd", "mr", "mw", "cq", "srq", "qp", "cm_id"}
        with device.register(bytearray(4096)):
            assert engine.resources() == {**before, "mr": before["mr"] + 1}
        assert engine.resources() == before


def test_listener_is_counted() -> None:
    """A listener is a CM id; a channel alone is not counted."""
    gc.collect()
    before = engine.resources()
    channel = engine.EventChannel("iwarp")
    assert engine.resources() == before
    listener = channel.listen("127.0.0.1", 0)
    assert engine.resources() == {**before, "cm_id": before["cm_id"] + 1}
    listener.close()
    channel.close()
    assert engine.resources() == before


GARBAGE = """
import gc, warnings
from nvmf.engine import HostDevice

warnings.simplefilter("ignore")
device = HostDevice("iwarp")
for _ in range(200):
    holder = {}
    data = bytearray(8192)
    holder["view"] = memoryview(data)[4096:]
    holder["memory"] = device.register(holder["view"])
    holder["self"] = holder
    del holder
    gc.collect()
data = bytearray(8192)
with device.register(memoryview(data)[4096:]) as memory:
    view = memoryview(memory)
    view[:4] = b"here"
    view.release()
    try:
        data.append(1)
    except BufferError:
        print("held", len(memory), bytes(data[4096:4100]))
data.append(1)
"""


def test_a_registered_view_in_a_cycle_of_garbage() -> None:
    """Run in a separate process: Python 3.11 ended with a fault."""
    done = subprocess.run([sys.executable, "-c", GARBAGE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "held 4096 b'here'\n"), done.stderr
