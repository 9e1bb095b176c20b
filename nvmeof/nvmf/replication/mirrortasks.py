# SPDX-License-Identifier: BSD-3-Clause
"""The tasks of a Mirror: create, take over, bring back a replica, resynchronise, close."""

from __future__ import annotations

from nvmf.replication import mirrorformat as form
from nvmf.replication.machine import (
    Damaged,
    Deposed,
    LegState,
    QuorumLost,
    ReplicationError,
    Steps,
)
from nvmf.replication.mirrorformat import Geometry, Header
from nvmf.replication.mirrorparts import Page, Region, What
from nvmf.replication.mirrorresync import MirrorResync


class MirrorTasks(MirrorResync):
    """A mirror: what it does step by step."""

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
            yield from self._pass(index, header)
            self._joined(index, generation)
        copies = yield from self._pages_of(index)
        self._joined(index, generation)
        own = 0 if older else header.joins[index]
        if own < self.joins[index] or not copies:
            yield from self._forget(index, generation, own)
        yield from self._count_in([index], joining=False)
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

    def _pass(self, index: int, header: Header) -> Steps[None]:
        """Go beyond the epoch of a writer that has claimed a replica, and died of it.

        One that has taken over has fenced so many others that they would not all be this writer's.
        """
        mine = yield from self._still_mine()
        if mine is None or mine <= len(self.legs) - self.takeover:
            self.depose()
            raise Deposed(f"a different writer has taken over: replica {index} has a later epoch")
        self.epoch = max(self.epoch, header.epoch + 1)
        self.seq = max(self.seq, header.seq)

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

    def look_in(self) -> Steps[object]:
        """Ask the replicas that are in whether they are there, and still this writer's."""
        if self.opened and not self.deposed:
            yield from self._still_mine()
        return None

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
