# SPDX-License-Identifier: BSD-3-Clause
"""Changes of the replicas of a Mirror: a blank one in the place of a lost one, and more or fewer.

More or fewer: nobody uses the mirror meanwhile, and all its replicas have everything.  A header is
written to each replica of the new form.  If that does not end, headers of both forms are there, all
with the same data, and neither form can lose anything that the other one has acknowledged: each
needs more than half of its replicas, and no replica has two headers.  A replica that has an earlier
form is copied as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nvmf.replication import mirrorformat as form
from nvmf.replication.machine import (
    Damaged,
    Deposed,
    Effect,
    LegState,
    ReplicationError,
    Steps,
)
from nvmf.replication.mirrorformat import Geometry, Header
from nvmf.replication.mirrortasks import MirrorTasks


class MirrorMembers(MirrorTasks):
    """A mirror whose replicas change."""

    def adopt(self, index: int) -> Steps[object]:
        """Take in a replica of which nothing is kept, in the place of one that is out."""
        leg = self.legs[index]
        if leg.state is not LegState.OUT or not self.opened or self.deposed:
            raise ReplicationError(
                f"cannot replace replica {index}: it is {leg.state}, and the mirror {self.state}"
            )
        return (yield from self.bring_back(index, self._adopt))

    def _adopt(self, index: int, generation: int) -> Steps[None]:
        yield from self.fence_again(index)
        self._joined(index, generation)
        shape = self.shape
        self.fits(index, shape.start + shape.size, shape.block)
        for page in self.pages.values():
            page.durable[index] = 0
        yield from self._forget(index, generation, 0)
        self.backs[index] = 0
        try:
            yield from self._blank(index, Header(shape, index, joins=(0,) * shape.legs))
            self._joined(index, generation)
        finally:
            del self.backs[index]
        self.legs[index].slot = 0
        yield from self._rejoin(index, generation)

    def _blank(self, index: int, header: Header) -> Steps[bool]:
        """Write the header of a replica that has nothing yet, and an empty map."""
        slot = header.encode()
        block = self.shape.block
        effects = [
            self.write(index, form.START + page * block, bytes(block), "create")
            for page in range(self.shape.pages)
        ]
        effects.append(self.write(index, form.SLOT, bytes(len(slot)), "create"))
        good = yield from self.all_of(effects)
        return good and (yield from self.all_of([self.write(index, 0, slot, "create")]))

    def reshape(self, old: Geometry, epoch: int, places: Sequence[int]) -> Steps[object]:
        """Give a mirror that nobody uses these replicas and this quorum, and open it.

        Args:
            old: Its present form.
            epoch: Of its last writer: this one.
            places: The index that each replica has in that form; -1: it is new.
        """
        for leg in self.legs:
            leg.state, leg.why = LegState.JOINING, ""
            leg.generation += 1
        self.shape, self.epoch = old, epoch
        yield from self.fence(self.joining())
        gone = set(range(old.legs)) - set(places)
        found: dict[int, Header] = {}
        for index, place in enumerate(places):
            if place >= 0:
                yield from self._check(index, place, gone, found)
            elif self.legs[index].state is LegState.JOINING:
                try:
                    self.fits(index, old.start + old.size, old.block)
                except Damaged as error:
                    self.lose(index, error)
        self._all_here()
        shape = replace(
            old,
            legs=len(self.legs),
            quorum=self.quorum,
            term=epoch + 1,
            before=old.term,
            gone=min(gone, default=form.NOBODY),
        )
        counts = [max(column) for column in zip(*(h.joins for h in found.values()), strict=True)]
        joins = tuple(counts[place] if place >= 0 else 1 for place in places)
        self.shape, self.seq = shape, max(header.seq for header in found.values()) + 1
        for index in [index for index, place in enumerate(places) if place < 0]:
            mine = (*joins[:index], 0, *joins[index + 1 :])
            yield from self._blank(index, Header(shape, index, epoch, self.seq, mine))
            self._all_here()
        effects: list[Effect] = []
        for index in [index for index, place in enumerate(places) if place >= 0]:
            header = Header(shape, index, epoch, self.seq, joins)
            at = (1 - self.legs[index].slot) * form.SLOT
            effects.append(self.write(index, at, header.encode(), "claim"))
        yield from self.all_of(effects)
        self._all_here()
        return (yield from self.takeover_now())

    def _check(
        self, index: int, place: int, gone: set[int], found: dict[int, Header]
    ) -> Steps[None]:
        """Read what a replica of the old form has: it must have everything."""
        if self.legs[index].state is not LegState.JOINING:
            return
        header = yield from self._header_of(index)
        if header is None:
            return
        if (header.geometry, header.index) != (self.shape, place):
            self.lose(index, Damaged("it does not have the header that the mirror has written"))
            return
        if header.epoch != self.epoch:
            raise Deposed("cannot change the mirror's replicas: a different writer has taken over")
        pages = yield from self._pages_of(index)
        known = sum(1 << one for one in gone)
        if pages and any(entry & ~known for page in pages for entry in page.entries):
            self.lose(index, Damaged("replicas lag"))
            return
        found[index] = header

    def _all_here(self) -> None:
        if len(self.joining()) < len(self.legs):
            raise ReplicationError(f"cannot change the mirror's replicas: {self.reasons()}")
