# SPDX-License-Identifier: BSD-3-Clause
"""The state of a Mirror's core, and what only reads it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from nvmf.replication import mirrorformat as form
from nvmf.replication.legs import Leg, LegMachine
from nvmf.replication.machine import (
    Deposed,
    Effect,
    Gate,
    Op,
    ReplicationError,
)
from nvmf.replication.mirrorformat import Geometry
from nvmf.replication.mirrorparts import Page, Piece, Region


class MirrorState(StrEnum):
    """The state of a mirror."""

    CLOSED = "closed"
    """It was not opened yet, or has stopped after an internal error."""
    CLEAN = "clean"
    """All replicas are in and have everything."""
    DEGRADED = "degraded"
    """A quorum is in."""
    BLOCKED = "blocked"
    """Fewer replicas than the quorum are in: operations wait."""
    DEPOSED = "deposed"
    """A different writer has taken over."""


class MirrorBase(LegMachine[Leg]):
    """See mirrorcore."""

    def __init__(self, legs: int, quorum: int, *, patience: float = 0.05, most_open: int = 256):
        if not 1 <= quorum <= legs <= form.MOST:
            raise ValueError(f"a quorum of {quorum} of {legs} replicas (at most {form.MOST})")
        super().__init__([Leg() for _ in range(legs)], quorum)
        self.patience = patience
        """Seconds for which a write waits for the others when a quorum has it."""
        self.most_open = most_open
        self.beat = 1.0
        """Seconds after which replicas are counted in again; one that is set back by more than
        that is noticed."""
        self.written = False
        """There were writes since then."""
        self.deposed = False
        self.opened = False
        self.shape = Geometry(b"", legs, quorum, 1, 1, 0)
        self.epoch = self.seq = self.stamp = 0
        self.joins = [0] * legs
        self.backs: dict[int, int] = {}
        """Replicas that were set back, with the number of joins in their own headers, which stays
        until the map says that they lag."""
        self.pages: dict[int, Page] = {}
        self.opens: dict[int, Region] = {}
        """The open regions, the one that was used last at the end."""
        self.lagging: dict[int, Region] = {}
        """The regions in which a replica lags."""
        self.wanted: dict[int, Region] = {}
        """The regions in which so many lag that writes wait: copied first, and without a limit."""
        self.heading = False
        """Headers are being written."""
        self.now = 0.0
        self.turn = 0
        self.ops: dict[Op, list[Piece]] = {}
        """Operations that have not ended, with their pieces."""
        self.work = Gate()
        """Opened when there may be something to resynchronise."""

    @property
    def state(self) -> MirrorState:
        """Return the state of the mirror."""
        if self.deposed:
            return MirrorState.DEPOSED
        if not self.opened:
            return MirrorState.CLOSED
        inside = self.inside()
        if len(inside) < self.quorum:
            return MirrorState.BLOCKED
        clean = len(inside) == len(self.legs) and not self.lagging
        return MirrorState.CLEAN if clean else MirrorState.DEGRADED

    def regions(self) -> Iterator[Region]:
        """The regions whose entry is not 0, or that are in use."""
        for page in self.pages.values():
            yield from page.regions.values()

    def region(self, index: int) -> Region:
        """The region with an index."""
        at = index // self.shape.per_page
        page = self.pages.get(at)
        if page is None:
            page = self.pages[at] = Page(at, durable=[0] * len(self.legs))
        found = page.regions.get(index)
        if found is None:
            found = page.regions[index] = Region(index, page)
        return found

    def refusal(self) -> ReplicationError:
        """Why nothing can be done."""
        if self.deposed:
            return Deposed("cannot use the mirror: a different writer has taken over")
        return ReplicationError("cannot use the mirror: it is not open; call open()")

    def effective(self, page: Page, version: int) -> bool:
        """Whether a quorum has a version of a page."""
        if not version:
            return False
        return sum(has >= version for has in page.durable) >= self.quorum

    def image(self, page: Page) -> form.Page:
        """The page as it is written."""
        entries = [0] * self.shape.per_page
        for index, region in page.regions.items():
            entries[index % self.shape.per_page] = region.lag | (form.OPEN if region.open else 0)
        return form.Page(page.index, self.epoch, page.version, tuple(entries))

    def read_data(self, index: int, start: int, length: int) -> Effect:
        """Issue a read of data from a replica."""
        return self.read(index, self.shape.start + start, length)
