# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for a condition: the time limit ends a hang, and never measures speed."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds: several times the longest wait on the slowest machine."""


def until(
    reached: Callable[[], object],
    what: str,
    *,
    timeout: float = PATIENCE,
    state: Callable[[], object] = lambda: "",
) -> None:
    """Wait until reached() is true; on timeout, state() is added to the error."""
    end = time.monotonic() + timeout
    while not reached():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:.0f} s: {what}\n{state()}")
        time.sleep(0.1)
