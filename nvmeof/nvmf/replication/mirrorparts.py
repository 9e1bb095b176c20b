# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a Mirror's core: regions, the work in them, pages of the map, replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from nvmf.replication.machine import Spread


class What(StrEnum):
    """The kind of a piece: its effect on its region."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"
    SEAL = "seal"
    """End the lag of a replica."""


@dataclass(eq=False)
class Piece:
    """Work in one region."""

    what: What
    region: Region
    start: int
    """Offset of its bytes in the data."""
    end: int
    done: Callable[[Piece], None]
    data: bytes = b""
    places: tuple[int, ...] = ()
    """Offsets of writes of one length, if they do not cover all of the bytes."""
    spread: Spread | None = None
    """The write to several replicas at once."""
    has: int = 0
    """The replicas that have the write."""
    out: int = 0
    """The replicas from which there is no answer yet."""
    began: float = 0.0
    reached: float = 0.0
    """When a quorum was seen to have it."""
    acked: bool = False
    leg: int = 0
    """The replica that a copy writes to, or a seal is of."""
    failed: bool = False

    def hinders(self, other: Piece) -> bool:
        """Whether other must wait for this piece, which has begun (or was asked for before it)."""
        if self.start >= other.end or other.start >= self.end:
            return False
        mine, theirs = self.what, other.what
        if mine is What.WRITE:
            if theirs in (What.COPY, What.SEAL):
                return bool(self.out)
            # Also not two at once on a replica, of which the last one to arrive would stay.
            return not self.acked or bool(self.out & self.region.takers)
        return theirs is What.WRITE


@dataclass(eq=False)
class Region:
    """A region whose entry is not 0, or in which work is under way."""

    index: int
    page: Page
    lag: int = 0
    since: dict[int, int] = field(default_factory=dict)
    """The version of the page in which each replica was marked."""
    open: int = 0
    """The version of the page in which it was opened; 0: it is not open."""
    copying: int = -1
    """The replica to which it is being copied, and writes go too."""
    active: list[Piece] = field(default_factory=list)
    waiting: deque[Piece] = field(default_factory=deque)
    advancing: bool = False
    again: bool = False

    @property
    def takers(self) -> int:
        """The replicas to which writes go, if they are in."""
        return ~self.lag | (1 << self.copying if self.copying >= 0 else 0)

    @property
    def idle(self) -> bool:
        """Whether nothing has to be remembered of it."""
        return not (self.lag or self.open or self.active or self.waiting)


@dataclass(eq=False)
class Page:
    """A page of the map: its newest version, and the one that each replica has."""

    index: int
    version: int = 0
    durable: list[int] = field(default_factory=list)
    writing: int = 0
    """The replicas to which it is on its way."""
    sealed: int = 0
    """Regions that have been copied since its newest version."""
    regions: dict[int, Region] = field(default_factory=dict)
