# SPDX-License-Identifier: BSD-3-Clause
"""The discovery log (Base 2.1, 5.1.12.3.1), which is read in parts that must have one generation.

Sans-IO: the caller sends the commands, on an event loop or on a thread.
"""

from __future__ import annotations

from typing import NamedTuple

from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.limits import TRIES
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader

MAX_RECORDS = 65536
"""Maximum records of one log; a log with more is refused."""
_PAGE = 4096


class Part(NamedTuple):
    """A part of the log page to read next."""

    offset: int
    length: int
    rae: bool
    """Retain Asynchronous Event: True until all parts are read, so that a change meanwhile is
    reported.
    """


class LogChanging(ConnectionLost):
    """The log changed during each of TRIES readings; the connection is intact."""


class DiscoveryLog:
    """A log that is being read: read `part` and add() it, until `part` is None."""

    def __init__(self, most: int = MAX_RECORDS) -> None:
        """most: maximum records."""
        self._most = most
        self._tries = 0
        self._genctr = 0
        self._left = 0
        self._read: list[bytes] = []
        self.part: Part | None = Part(0, DiscoveryHeader.SIZE, True)
        """The part to read next; None if the log is complete."""

    def add(self, data: bytes) -> None:
        """Add the data of `part`.

        Raises DecodeError for an invalid header, ConnectionLost if the log has an unknown format or
        too many records, and LogChanging if it changes during each of TRIES readings.
        """
        assert self.part is not None
        if not self.part.rae:
            self._check(data)
            return
        if not self._read:
            self._begin(data)
        else:
            self._left -= len(data)
        self._read.append(data)
        if self._left > 0:
            self.part = Part(self.part.offset + len(data), min(_PAGE, self._left), True)
        else:
            self.part = Part(0, DiscoveryHeader.SIZE, False)

    @property
    def data(self) -> bytes:
        """The log, if `part` is None."""
        return b"".join(self._read)

    def _begin(self, data: bytes) -> None:
        header = DiscoveryHeader.decode(data)
        if header.recfmt:
            raise ConnectionLost(f"unknown discovery log record format {header.recfmt}")
        if header.numrec > self._most:
            raise ConnectionLost(
                f"the discovery log announces {header.numrec} records, more than a port can have "
                f"({self._most} are read)"
            )
        self._genctr = header.genctr
        self._left = header.numrec * DiscoveryEntry.SIZE

    def _check(self, data: bytes) -> None:
        """Compare the generation after the last part with that of the first one."""
        self._tries += 1
        if DiscoveryHeader.decode(data).genctr == self._genctr:
            self.part = None
        elif self._tries == TRIES:
            raise LogChanging(
                f"the discovery log changed during each of {TRIES} readings; try again"
            )
        else:
            self._read = []
            self.part = Part(0, DiscoveryHeader.SIZE, True)
