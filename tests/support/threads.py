# SPDX-License-Identifier: BSD-3-Clause
"""Threads that end by themselves, soon after their work is done."""

from __future__ import annotations

import threading
import time

PATIENCE = 30.0
"""Seconds, for loaded machines."""


def expect_threads(count: int) -> None:
    """Wait until this many threads are alive: one that has passed on its result may still be."""
    end = time.monotonic() + PATIENCE
    while threading.active_count() != count and time.monotonic() < end:
        time.sleep(0.005)
    assert threading.active_count() == count, threading.enumerate()
