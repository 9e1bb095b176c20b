# SPDX-License-Identifier: BSD-3-Clause
"""The generation counter of the discovery log (GENCTR): incremented with every change.

A host that reconnects after a restart of the target must not mistake a new log for the one it
knows.  So the counter starts at the time of day in microseconds, which grows faster than changes
can occur.  If there is a state folder, the counter also starts no lower than any value that an
earlier run may have used, even if the clock was set back: the file contains a number that the
counter has not reached yet, and is rewritten before the counter reaches it.
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
"""Changes between two writes of the file; it is written at the start, then very rarely."""
_LAST = (1 << 64) - 1


def _clock() -> int:
    """Return microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Generation:
    """The counter, for one run of the target.  folder: None does not store it."""

    def __init__(self, folder: Path | None = None, clock: Callable[[], int] = _clock) -> None:
        self._path = None if folder is None else folder / FILE
        self._ceiling = 0
        """Values below this need no write."""
        self._failed = False
        self.value = max(clock(), self._stored())
        self._keep()

    def advance(self) -> int:
        """Increment the counter for a changed log, and return it."""
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
            now = f"it was renamed to {set_aside(self._path).name}"
        except OSError as error:
            now = f"it cannot be renamed: {error.strerror}"
        log.error(
            "%s is damaged or unreadable: the discovery generation starts at the time of day; %s",
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
                    "mistake a new discovery log for an old one; will retry with each change",
                    self._path,
                    error.strerror,
                )
            self._failed = True
        else:
            if self._failed:
                log.info("%s can be written again", self._path)
            self._failed = False
