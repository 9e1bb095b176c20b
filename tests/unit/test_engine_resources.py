# SPDX-License-Identifier: BSD-3-Clause
"""What the embedded device says it holds."""

from __future__ import annotations

import gc

from nvmf import engine


def test_memory_is_counted() -> None:
    """A region is there from its registration until its memory is closed, and no longer."""
    device = engine.HostDevice("iwarp")
    with device.register(bytearray(4096)):  # the first makes the device's own
        before = engine.resources()
        assert set(before) == {"pd", "mr", "mw", "cq", "srq", "qp", "cm_id"}
        with device.register(bytearray(4096)):
            assert engine.resources() == {**before, "mr": before["mr"] + 1}
        assert engine.resources() == before


def test_listener_is_counted() -> None:
    """A listener is a CM id; a channel is nothing by itself."""
    gc.collect()
    before = engine.resources()
    channel = engine.EventChannel("iwarp")
    assert engine.resources() == before
    listener = channel.listen("127.0.0.1", 0)
    assert engine.resources() == {**before, "cm_id": before["cm_id"] + 1}
    listener.close()
    channel.close()
    assert engine.resources() == before
