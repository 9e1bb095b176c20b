# SPDX-License-Identifier: BSD-3-Clause
"""The generation counter of the discovery log (GENCTR): up with every change, and never back.

A host that comes back after a restart of the target must not take a new log for the one it knows.
So the counter starts at the time of day in microseconds, which nobody can outpace by changes, and
where there is a state folder not below what an earlier run may have used, whatever the clock says:
the file holds a number that no counter has reached yet, and is written before one does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from nvmf.target.lasting.state import read, set_aside, write_atomically

log = logging.getLogger("nvmf.target")

FILE = "discovery-generation"
RESERVE = 1 << 16
"""Changes between two writes of the file: it is written at the start, and then hardly ever."""
_LAST = (1 << 64) - 1


def _clock() -> int:
    """Microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Generation:
    """The counter, for one run of the target.  folder: None keeps it nowhere."""

    def __init__(self, folder: Path | None = None, clock: Callable[[], int] = _clock) -> None:
        self._path = None if folder is None else folder / FILE
        self._ceiling = 0
        """Below it, no write is needed."""
        self._failed = False
        self.value = max(clock(), self._stored())
        self._keep()

    def advance(self) -> int:
        """The log is another one now; its generation."""
        self.value = 1 if self.value >= _LAST else self.value + 1
        if self.value >= self._ceiling:
            self._keep()
        return self.value

    def _stored(self) -> int:
        if self._path is None:
            return 0
        try:
            text = read(self._path).decode("ascii").strip()
            number = int(text) if text.isdecimal() else -1
        except FileNotFoundError:
            return 0
        except (OSError, ValueError):
            number = -1
        if 0 <= number <= _LAST - RESERVE:
            return number
        try:
            now = f"it is now {set_aside(self._path).name}"
        except OSError as error:
            now = f"it cannot be set aside: {error.strerror}"
        log.error(
            "%s is damaged or cannot be read: the discovery log counts on from the time of day; %s",
            self._path,
            now,
        )
        return 0

    def _keep(self) -> None:
        self._ceiling = self.value + RESERVE
        if self._path is None:
            return
        try:
            write_atomically(self._path, b"%d\n" % self._ceiling)
        except OSError as error:
            self._ceiling = self.value
            if not self._failed:
                log.error(
                    "%s cannot be written (%s): after a restart with the clock set back, hosts may "
                    "take a new discovery log for an old one; it is tried again with each change",
                    self._path,
                    error.strerror,
                )
            self._failed = True
        else:
            if self._failed:
                log.info("%s is written again", self._path)
            self._failed = False
