# SPDX-License-Identifier: BSD-3-Clause
"""The resynchronisation of a Mirror: copies of regions in which a replica lags."""

from __future__ import annotations

from collections import deque

from nvmf.replication.machine import Gate, LegState, Steps
from nvmf.replication.mirrormeta import MirrorMeta
from nvmf.replication.mirrorparts import Piece, Region, What


class _Asked:
    """A copy, or the seal of a region, that a task waits for."""

    def __init__(
        self,
        core: MirrorResync,
        what: What,
        region: Region,
        start: int,
        end: int,
        index: int,
        generation: int = 0,
    ) -> None:
        self._gate = Gate()
        self._ended = False

        def done(piece: Piece) -> None:
            if what is What.SEAL:
                core.seal(region, index, generation)
            else:
                core.landed(region, end - start)
            self._ended = True
            self._gate.open()

        self._piece = Piece(what, region, start, end, done, leg=index)
        region.waiting.appendleft(self._piece)
        core.advance(region)

    def end(self) -> Steps[Piece]:
        """Wait for it."""
        while not self._ended:
            yield self._gate
        return self._piece


class MirrorResync(MirrorMeta):
    """A mirror: how replicas that lag get what they lack."""

    chunk = 128 << 10
    """Bytes of one copy; writes of the same bytes wait meanwhile."""
    most_chunk = 512 << 10
    """The same while nobody uses the mirror: each copy has a price of its own."""
    most_chunks = 8
    """Copies at the same time, of one region."""
    most_lanes = 4
    """Regions that are copied at the same time: while one is ended, the others go on."""
    most_sealed = 16
    """Regions that have been copied, until the map is written."""

    def resync(self, lane: int = 0) -> Steps[object]:
        """Copy the regions in which a replica that is in lags; runs as long as the mirror.

        There is one task for each of most_lanes.
        """
        while not self.deposed:
            found = self._next(self.wanted)
            if found is None and lane < self.lanes():
                found = self._next(self.lagging)
            if found is None:
                yield self.work
                continue
            yield from self._resync(*found)
        return None

    def _next(self, regions: dict[int, Region]) -> tuple[Region, int] | None:
        inside = self.inside() if regions else []
        if len(inside) < self.quorum:
            return None
        for region in regions.values():
            if region.copying >= 0:  # a different lane has it
                continue
            sources = any(not region.lag >> i & 1 for i in inside)
            for index in inside:
                out = any(piece.out >> index & 1 for piece in region.active)
                if region.lag >> index & 1 and sources and not out:
                    return region, index
        return None

    def _resync(self, region: Region, index: int) -> Steps[None]:
        generation = self.legs[index].generation
        region.copying = index
        first = region.index * self.shape.region
        at, end = first, min(first + self.shape.region, self.shape.size)
        copies: deque[_Asked] = deque()
        good = True
        while copies or (good and at < end):
            good = good and self.legs[index].generation == generation and not self.deposed
            if good and at < end and len(copies) < self.width(region):
                stop = min(at + self.stride(region), end)
                copies.append(_Asked(self, What.COPY, region, at, stop, index))
                yield from self.pace(region, stop - at)
                at = stop
                continue
            if copies:  # also of a region that is given up: none may arrive later
                piece = yield from copies.popleft().end()
                good = good and not piece.failed
        if good and self.legs[index].generation == generation and not self.deposed:
            seal = _Asked(self, What.SEAL, region, first, end, index, generation)
            yield from seal.end()
        else:
            region.copying = -1

    def lanes(self) -> int:
        """Regions to copy at the same time."""
        return self.most_lanes

    def stride(self, region: Region) -> int:
        """Bytes to copy at a time."""
        return self.chunk

    def width(self, region: Region) -> int:
        """Chunks to copy at the same time."""
        return self.most_chunks

    def pace(self, region: Region, length: int) -> Steps[None]:
        """Wait, if copying is faster than its limit allows."""
        yield []

    def landed(self, region: Region, length: int) -> None:
        """Note the end of a copy."""

    def seal(self, region: Region, index: int, generation: int) -> None:
        """All has been copied: writes wait for the replica from here on."""
        region.copying = -1
        if self.legs[index].generation != generation or self.legs[index].state is not LegState.IN:
            return
        region.lag &= ~(1 << index)
        if not region.lag:
            self.lagging.pop(region.index, None)
        if len(self.legs) - region.lag.bit_count() >= self.quorum:
            self.wanted.pop(region.index, None)
        region.since.pop(index, None)
        writes = [p for p in region.active if p.what is What.WRITE and not p.acked]
        for piece in writes:
            piece.has |= 1 << index
        page = region.page
        page.sealed += 1
        # The map may be late: what it says to lag would only be copied again.
        lags = any(other.lag >> index & 1 for other in page.regions.values())
        if page.sealed >= self.most_sealed or not lags:
            self.change(page)
        for piece in writes:
            self.evaluate(piece)
