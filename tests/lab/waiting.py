# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for a condition: its limit is there to end a hang, never to judge a speed."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds: several times what the slowest machine takes for anything that is waited for."""


def until(
    reached: Callable[[], object],
    what: str,
    *,
    timeout: float = PATIENCE,
    state: Callable[[], object] = lambda: "",
) -> None:
    """Wait until reached() is true; where that takes too long, state() says how far it came."""
    end = time.monotonic() + timeout
    while not reached():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:.0f} s: {what}\n{state()}")
        time.sleep(0.1)
