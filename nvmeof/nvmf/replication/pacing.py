# SPDX-License-Identifier: BSD-3-Clause
"""The pace at which a mirror copies to replicas that lag."""

from __future__ import annotations

from collections.abc import Callable

from nvmf.replication.machine import Steps
from nvmf.replication.mirrormembers import MirrorMembers
from nvmf.replication.mirrorparts import Region

_QUIET = 0.1
"""Seconds without a read or write after which copying is not limited."""
_SLACK = 0.02
"""Seconds by which copying may catch up."""
_REST = 12
"""Time without copying, for the time that a copy takes beside other operations."""
_SLOWEST = 16
"""Copying is slowed down to this part of its limit at most."""


class Paced(MirrorMembers):
    """Copies at most rate bytes a second while others use the mirror, else as fast as it can.

    Where the replicas are slow or busy, that may be too much: a copy is therefore followed by a
    pause of _REST times the time that it took of them.
    """

    rate: float | None = None
    used = -_QUIET
    """When the mirror was last read or written."""
    wake: Callable[[float], object] = staticmethod(lambda _: None)
    """Called with seconds, after which tick() is to be called."""
    clock: Callable[[], float] = staticmethod(lambda: 0.0)
    _due = 0.0
    _issued = 0.0
    """When the last copy was begun."""

    def _limited(self, region: Region | None = None) -> bool:
        """Whether a limit holds for copies of a region, or for copies that no write waits for."""
        if not self.rate or (region is not None and region.index in self.wanted):
            return False
        return bool(self.ops) or self.clock() - self.used < _QUIET

    def lanes(self) -> int:
        return 1 if self._limited() else self.most_lanes

    def stride(self, region: Region) -> int:
        return self.chunk if self._limited(region) else self.most_chunk

    def width(self, region: Region) -> int:
        return 1 if self._limited(region) else self.most_chunks

    def pace(self, region: Region, length: int) -> Steps[None]:
        yield []
        self._issued = self.clock()
        if not self.rate or not self._limited(region):
            return
        # A pause that was too long is made up for, or the error of many short ones would add up.
        self._due = max(self._due, self.clock() - _SLACK) + length / self.rate
        while (left := self._due - self.clock()) > 0 and not self.deposed and self._limited(region):
            self.wake(left)
            yield self.work

    def landed(self, region: Region, length: int) -> None:
        if not self.rate or not self._limited(region):
            return
        now = self.clock()
        # Operations of others were under way meanwhile: the copy had its share of the time.
        took = (now - self._issued) / (1 + len(self.ops))
        self._due = max(self._due, now + min(_REST * took, length / self.rate * _SLOWEST))
