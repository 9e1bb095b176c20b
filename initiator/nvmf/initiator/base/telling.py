# SPDX-License-Identifier: BSD-3-Clause
"""Limits of log lines that a target can cause without end: it must not fill the disk of a host."""

from __future__ import annotations

import logging
import time


class Telling:
    """A number of occasions that are logged at once, and then one in some seconds."""

    def __init__(self, burst: int, pause: float) -> None:
        self._burst, self._pause = burst, pause
        self._until = 0.0
        """Time until which the occasions so far count."""

    def level(self, wanted: int) -> int:
        """Count an occasion; return the level for its lines: wanted, or DEBUG if there are many."""
        now = time.monotonic()
        if self._until - now > (self._burst - 1) * self._pause:
            return logging.DEBUG
        self._until = max(self._until, now) + self._pause
        return wanted
