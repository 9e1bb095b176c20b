# SPDX-License-Identifier: BSD-3-Clause
"""Reading of single keys without Enter; the terminal is restored afterwards."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Self


class Keys:
    """The keyboard of the terminal; if stdin is not a terminal, there are no keys."""

    def __init__(self) -> None:
        self._fd: int | None = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self._before: list[int | list[bytes | int]] = []

    def __enter__(self) -> Self:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return the next key within this time; "" if none."""
        if self._fd is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return ""
        try:
            return os.read(self._fd, 1).decode("ascii", "replace") or "q"
        except OSError:  # the terminal is gone, as above
            return "q"
