# SPDX-License-Identifier: BSD-3-Clause
"""The tasks of a Mirror: create, take over, bring back a replica, resynchronise, close."""

from __future__ import annotations

from collections import deque

from nvmf.replication import mirrorformat as form
from nvmf.replication.machine import (
    Damaged,
    Deposed,
    Gate,
    LegState,
    QuorumLost,
    ReplicationError,
    Steps,
)
from nvmf.replication.mirrorformat import Geometry, Header
from nvmf.replication.mirrormeta import MirrorMeta
from nvmf.replication.mirrorparts import Page, Piece, Region, What


class _Asked:
    """A copy, or the seal of a region, that a task waits for."""

    def __init__(
        self,
        core: MirrorTasks,
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
                core.landed(end - start)
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


class MirrorTasks(MirrorMeta):
    """A mirror: what it does step by step."""

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

    # ---- creating ----

    def create(self, shape: Geometry) -> Steps[object]:
        """Make the replicas a new mirror.

        The data of replica 0 is the mirror's: the others lag everywhere, and are resynchronised.
        """
        self.shape = shape
        header = Header(shape, 0, joins=(0,) * len(self.legs))
        effects = []
        lag = (1 << len(self.legs)) - 2
        for index in range(len(self.legs)):
            slot = header.at(index).encode()
            effects += [
                self.write(index, 0, slot, "create"),
                self.write(index, form.SLOT, bytes(len(slot)), "create"),
            ]
            for number in range(shape.pages):
                left = min(shape.regions - number * shape.per_page, shape.per_page)
                entries = (lag,) * left + (0,) * (shape.per_page - left)
                page = form.Page(number, 0, 1, entries).encode(shape)
                at = form.START + number * shape.block
                effects.append(self.write(index, at, page, "create"))
        yield effects
        for effect in effects:
            if effect.error:
                raise ReplicationError(
                    f"cannot create the mirror on replica {effect.leg}: {effect.error}"
                )
        return None

    # ---- taking over ----

    def takeover_now(self) -> Steps[object]:
        """Become the writer: fence the replicas, and find out which has what."""
        for leg in self.legs:
            leg.state, leg.why = LegState.JOINING, ""
            leg.generation += 1
        found: dict[int, Header] = {}
        yield from self.fence(self.joining())
        for index in self.joining():
            header = yield from self._header_of(index)
            if header:
                found[index] = header
        self._need("open the mirror")
        self.shape = self._form(list(found.values()))
        older = self._sort(found)
        self._need("open the mirror")
        self.epoch = max(header.epoch for header in found.values()) + 1
        self.seq = max(header.seq for header in found.values())
        mine = {i: header.joins for i, header in found.items() if i not in older}
        joins = [max(column) for column in zip(*mine.values(), strict=True)]
        own = {i: mine[i][i] if i in mine else 0 for i in self.joining()}
        self.backs = {i: n for i, n in own.items() if i in older or n < joins[i]}
        self.joins = joins
        yield from self._count_in([i for i in self.joining() if i not in self.backs])
        self._need("claim the mirror")
        copies: dict[int, list[form.Page]] = {}
        for index in self.joining():
            pages = yield from self._pages_of(index)
            if pages:
                copies[index] = pages
        self._need("read the dirty map")
        back = self.backs
        changed = self._merge(copies, set(back))
        yield from self._take_in(changed)
        self.backs = {}
        yield from self._count_in([i for i in back if self.legs[i].state is LegState.IN])
        return None

    def _merge(self, copies: dict[int, list[form.Page]], back: set[int]) -> list[Page]:
        """Make the map of the replicas' copies; the pages to be written."""
        changed = []
        for number in range(self.shape.pages):
            mine = {index: pages[number] for index, pages in copies.items()}
            best = max(mine.values(), key=lambda page: page.version)
            self.stamp = max(self.stamp, best.seq)
            page = self.pages[number] = Page(number, best.seq, [0] * len(self.legs))
            differ = any(copy != best for copy in mine.values()) or bool(back)
            first = number * self.shape.per_page
            for place, entry in enumerate(best.entries[: self.shape.regions - first]):
                lag = entry & ~form.OPEN
                for index in back:
                    lag |= 1 << index
                clean = [i for i in copies if not lag >> i & 1]
                if not clean:
                    self._no_source(first + place, lag)
                if entry & form.OPEN:  # replicas may differ in what was not acknowledged
                    lag |= ((1 << len(self.legs)) - 1) & ~(1 << clean[0])
                    differ = True
                if lag:
                    region = Region(first + place, page, lag)
                    region.since = {i: best.seq for i in range(len(self.legs)) if lag >> i & 1}
                    page.regions[region.index] = self.lagging[region.index] = region
            if differ:
                changed.append(page)
            for index, copy in mine.items():
                page.durable[index] = 0 if differ else copy.seq
        return changed

    def _no_source(self, number: int, lag: int) -> None:
        wanted = ", ".join(str(i) for i in range(len(self.legs)) if not lag >> i & 1) or "none"
        raise QuorumLost(
            f"cannot open the mirror: only replica {wanted} has all that was acknowledged in "
            f"region {number}, and it is not here ({self.reasons()}); bring it back"
        )

    def _take_in(self, changed: list[Page]) -> Steps[None]:
        """Write the map in the new epoch, and open the mirror."""
        effects = []
        for page in changed:
            self.stamp += 1
            page.version = self.stamp
            for region in page.regions.values():
                region.since = dict.fromkeys(region.since, page.version)
            image = self.image(page).encode(self.shape)
            at = form.START + page.index * self.shape.block
            effects += [self.write(index, at, image, "map") for index in self.joining()]
        yield from self.all_of(effects)
        self._need("write the dirty map")
        for index in self.joining():
            self.legs[index].state = LegState.IN
            for page in changed:
                page.durable[index] = page.version
        self.opened = True

    # ---- replicas that come back ----

    def rejoin(self, index: int) -> Steps[object]:
        """Take a lost replica in again: it is read where it does not lag."""
        leg = self.legs[index]
        if leg.state is not LegState.OUT or not self.opened or self.deposed:
            raise ReplicationError(
                f"cannot bring back replica {index}: it is {leg.state}, and the mirror {self.state}"
            )
        return (yield from self.bring_back(index, self._rejoin))

    def _rejoin(self, index: int, generation: int) -> Steps[None]:
        yield from self.fence_again(index)
        self._joined(index, generation)
        header = yield from self._header_of(index)
        self._joined(index, generation)
        assert header
        older = self._place(index, header)
        if header.epoch > self.epoch:
            self.depose()
            raise Deposed(f"a different writer has taken over: replica {index} has a later epoch")
        copies = yield from self._pages_of(index)
        self._joined(index, generation)
        own = 0 if older else header.joins[index]
        if own < self.joins[index] or not copies:
            yield from self._forget(index, generation, own)
        yield from self._count_in([index])
        self._joined(index, generation)
        self.legs[index].state = LegState.IN
        for page in list(self.pages.values()):
            page.durable[index] = 0
            self.change(page)
        for region in list(self.regions()):
            for piece in [p for p in region.active if p.what is What.WRITE and not p.acked]:
                bit = 1 << index
                if not (region.lag | piece.has | piece.out) & bit:
                    self.send(piece, index)
            self.advance(region)
        self.work.open()

    def _forget(self, index: int, generation: int, own: int) -> Steps[None]:
        """Forget a replica, and wait until enough others know it: before it is counted in."""
        self.backs[index] = own
        try:
            self._may_forget(index)
            self.forget(index)
            wanted = [(page, page.version) for page in self.pages.values()]
            most = min(self.quorum, len(self.legs) - 1)
            while any(
                sum(page.durable[i] >= version for i in self.inside()) < most
                for page, version in wanted
            ):
                yield self.work
                self._joined(index, generation)
                self._may_forget(index)
        finally:
            del self.backs[index]

    def _may_forget(self, index: int) -> None:
        if len(self.inside()) < min(self.quorum, len(self.legs) - 1):
            raise ReplicationError(
                f"replica {index} has to be copied as a whole, and too few others are in "
                f"({self.reasons()}); bring them back first"
            )

    def forget(self, index: int) -> None:
        """Mark a replica as lagging in all regions, because its contents are unknown."""
        others = ((1 << len(self.legs)) - 1) & ~(1 << index)
        if not others or any(not others & ~region.lag for region in self.regions()):
            raise Damaged(
                "it was set back to an earlier state, or its dirty map is damaged, and no other "
                "replica has all that was acknowledged"
            )
        for number in range(self.shape.regions):
            self.mark(self.region(number), index)

    # ---- replicas that are set back ----

    def beats(self) -> Steps[object]:
        """Count the replicas in again now and then, while the mirror is written to; runs as long
        as the mirror.

        So a replica that is set back to an earlier state of the same writer is noticed as well.
        """
        due = self.now
        while not self.deposed:
            if not self.written or self.now < due or len(self.inside()) < self.quorum:
                yield self.work
                continue
            self.written = False
            due = self.now + self.beat
            yield from self._count_in(self.inside(), joining=False)
        return None

    # ---- resynchronisation ----

    def resync(self, lane: int = 0) -> Steps[object]:
        """Copy the regions in which a replica that is in lags; runs as long as the mirror.

        There is one task for each of most_lanes.
        """
        while not self.deposed:
            found = self._next() if lane < self.lanes() else None
            if found is None:
                yield self.work
                continue
            yield from self._resync(*found)
        return None

    def _next(self) -> tuple[Region, int] | None:
        inside = self.inside() if self.lagging else []
        if len(inside) < self.quorum:
            return None
        for region in self.lagging.values():
            if region.copying >= 0:  # the other lane has it
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
            if good and at < end and len(copies) < self.width():
                stop = min(at + self.stride(), end)
                copies.append(_Asked(self, What.COPY, region, at, stop, index))
                yield from self.pace(stop - at)
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

    def stride(self) -> int:
        """Bytes to copy at a time."""
        return self.chunk

    def width(self) -> int:
        """Chunks to copy at the same time."""
        return self.most_chunks

    def pace(self, length: int) -> Steps[None]:
        """Wait, if copying is faster than its limit allows."""
        yield []

    def landed(self, length: int) -> None:
        """Note the end of a copy."""

    def seal(self, region: Region, index: int, generation: int) -> None:
        """All has been copied: writes wait for the replica from here on."""
        region.copying = -1
        if self.legs[index].generation != generation or self.legs[index].state is not LegState.IN:
            return
        region.lag &= ~(1 << index)
        if not region.lag:
            self.lagging.pop(region.index, None)
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

    def close(self) -> Steps[object]:
        """End: wait for what is under way, and close the regions, so that nothing is resynced."""
        for region in list(self.opens.values()):
            while region.active or region.waiting:
                yield self.work
            if region.open:
                self.close_region(region)
        for page in self.pages.values():
            if page.sealed:
                self.change(page)
        while self.opened and not self.deposed and len(self.inside()) >= self.quorum:
            if not any(page.writing for page in self.pages.values()):
                break
            yield self.work
        return None
