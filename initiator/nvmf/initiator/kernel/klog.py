# SPDX-License-Identifier: BSD-3-Clause
"""The new lines of the kernel's log, where the driver writes details that an errno lacks.

A record of /dev/kmsg is "priority,sequence,microseconds,flags;text", then lines of properties
(Linux Documentation/ABI/testing/dev-kmsg). Reading takes CAP_SYSLOG on most machines; without it,
only the errno is reported.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path

_OURS = re.compile(r"nvme (nvme\d+): |nvme[_-](?:fabrics|rdma|core): |rdma_cm: ")
_RECORD = 8192


class KernelLog:
    """A place in the kernel's log."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self._path = path
        self._file: int | None = None

    def mark(self) -> None:
        """Set the start of since() to the end of the log, if it can be read."""
        self.close()
        with contextlib.suppress(OSError):
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)

    def since(self, *, passing_over: Collection[str] = ()) -> list[str]:
        """Return the lines of the NVMe drivers since mark(), without some controllers'."""
        lines: list[str] = []
        while (record := self._next()) is not None:
            text = record.partition(";")[2].partition("\n")[0]
            ours = _OURS.match(text)
            if ours and ours[1] not in passing_over:
                lines.append(text)
        self.close()
        return lines

    def _next(self) -> str | None:
        if self._file is None:
            return None
        while True:
            try:
                return os.read(self._file, _RECORD).decode(errors="replace") or None
            except BrokenPipeError:  # records were overwritten before they were read
                continue
            except OSError:
                return None

    def close(self) -> None:
        """Close the log; since() then returns nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
