# SPDX-License-Identifier: BSD-3-Clause
"""The headers and the map of a Mirror's replicas: fencing, reading, checking, claiming."""

from __future__ import annotations

from nvmf.replication import mirrorformat as form
from nvmf.replication.machine import (
    Blank,
    Damaged,
    LegState,
    Misplaced,
    QuorumLost,
    ReplicationError,
    Steps,
)
from nvmf.replication.mirrorcore import MirrorCore
from nvmf.replication.mirrorformat import Header


class MirrorMeta(MirrorCore):
    """Steps that the tasks of a mirror are made of."""

    def _header_of(self, index: int) -> Steps[Header | None]:
        slots = [self.read(index, at, form.SLOT) for at in (0, form.SLOT)]
        if not (yield from self.all_of(slots)):
            return None
        try:
            header = Header.best([effect.result for effect in slots])
            if header is None:
                if any(any(effect.result) for effect in slots):
                    raise Damaged(
                        "it has no valid header of a mirror: it is new, or was overwritten"
                    )
                yield from self._is_blank(index)
                return None
            self.legs[index].slot = int(header == Header.decode(slots[1].result))
            shape = header.geometry
            self.fits(index, shape.start + shape.size, shape.block)
        except Damaged as error:
            self.lose(index, error)
            return None
        return header

    def _is_blank(self, index: int) -> Steps[None]:
        """Lose a replica without a header, as blank if it has no other data."""
        length = min(self.room(index)[0], form.BLANK) - form.START
        rest = self.read(index, form.START, length)
        if not (yield from self.all_of([rest])):
            return
        if rest.result.strip(b"\0"):
            raise Damaged("it has no header of a mirror, but other data")
        raise Blank("it has no valid header of a mirror: it is blank")

    def is_later(self, slots: list[bytes]) -> bool:
        """See LegMachine."""
        try:
            header = Header.best(slots)
        except Damaged:
            return False
        return (
            header is not None
            and header.geometry.uuid == self.shape.uuid
            and header.epoch > self.epoch
        )

    def _form(self, headers: list[Header]) -> form.Geometry:
        """The present form of the mirror that most replicas belong to."""
        shapes = [header.geometry for header in headers if not header.fresh]
        if not shapes:
            raise QuorumLost(
                f"cannot open the mirror: no replica that is here was ever taken in "
                f"({self.reasons()}); bring the others back"
            )
        of = [shape.uuid for shape in shapes]
        return max(shapes, key=lambda one: (of.count(one.uuid), one.term, shapes.count(one)))

    def _place(self, index: int, header: Header) -> bool:
        """Whether a replica of this mirror is from before the last change of its members.

        Raises Damaged if it is not a replica of this mirror, or not with this index.
        """
        shape, mine = self.shape, header.geometry
        if mine.uuid != shape.uuid:
            raise Damaged("it belongs to a different mirror")
        ours = (index, len(self.legs), self.quorum)
        if mine == shape:
            if (header.index, mine.legs, mine.quorum) == ours:
                return False
            said = (
                f"it is replica {header.index} of a mirror of {mine.legs} replicas with a quorum "
                f"of {mine.quorum}, not replica {index} of {len(self.legs)} with {self.quorum}"
            )
            if (mine.legs, mine.quorum) == ours[1:]:
                raise Misplaced(said, header.index)
            raise Damaged(said)
        if mine.term == shape.before < shape.term and header.index != shape.gone:
            return True
        raise Damaged("it belongs to a different mirror, or was removed from this one")

    def _sort(self, found: dict[int, Header]) -> set[int]:
        """Leave out replicas that cannot be used; those that may lack anything are returned.

        A replica from before the last change of the members counts only if all replicas are here.
        Then the change has not ended, or the replica was set back: it is copied as a whole.
        """
        older = set()
        for index, header in list(found.items()):
            try:
                if self._place(index, header):
                    older.add(index)
            except Damaged as error:
                self.lose(index, error)
                del found[index]
        newest = max((h.epoch for i, h in found.items() if i not in older), default=0)
        for index in list(older):
            if len(found) < len(self.legs) or found[index].epoch > newest:
                why = "its header is from before the last change of the mirror's replicas"
                self.lose(index, Damaged(why))
                del found[index]
                older.discard(index)
        return older

    def _count_in(self, indices: list[int], *, joining: bool = True) -> Steps[None]:
        """Claim replicas: first each counts its own joins, then all know of it.

        So the number that a replica has itself is never lower than what others have for it.

        joining: Others that are being taken in get it, too: their headers were read.
        """
        counts = list(self.joins)
        for index in indices:
            counts[index] += 1
        mine = {}
        for index in indices:
            mine[index] = [*self.joins]
            mine[index][index] = counts[index]
        yield from self._headers(mine, counting=True)
        known = [*(self.joining() if joining else ()), *self.inside()]
        chosen = [i for i in indices if self.legs[i].state is LegState.JOINING]
        yield from self._headers(dict.fromkeys([*known, *chosen], self.joins))

    def _headers(self, joins: dict[int, list[int]], *, counting: bool = False) -> Steps[None]:
        """Write headers, each into the older slot of its replica.

        counting: each replica's own number has grown, and nobody else knows it yet.
        """
        while self.heading:  # one header at a time
            yield self.work
        self.heading = True
        self.seq += 1
        effects = []
        for index, counts in joins.items():
            counts = [*counts]
            counts[index] = self.backs.get(index, counts[index])
            header = Header(self.shape, index, self.epoch, self.seq, tuple(counts))
            at = (1 - self.legs[index].slot) * form.SLOT
            effects.append(self.write(index, at, header.encode(), "claim"))
        yield from self.all_of(effects)
        for effect in effects:
            if not effect.error and not self.gone(effect):
                self.legs[effect.leg].slot = effect.offset // form.SLOT
                if counting:  # now, or a header that waits would take it back
                    self.joins[effect.leg] = joins[effect.leg][effect.leg]
        self.heading = False
        self.work.open()

    def _pages_of(self, index: int) -> Steps[list[form.Page] | None]:
        length = self.shape.pages * self.shape.block
        effect = self.read(index, form.START, length)
        if not (yield from self.all_of([effect])):
            return None
        try:
            block = self.shape.block
            return [
                form.Page.decode(self.shape, i, effect.result[i * block : (i + 1) * block])
                for i in range(self.shape.pages)
            ]
        except Damaged as error:
            if self.opened:
                return None  # it is taken in, and lags everywhere
            self.lose(index, error)
            return None

    def _need(self, what: str) -> None:
        if len(self.joining()) < self.takeover:
            raise QuorumLost(
                f"cannot {what}: {self.takeover} of {len(self.legs)} replicas are needed "
                f"({self.reasons()}); bring them back and try again"
            )

    def _joined(self, index: int, generation: int) -> None:
        if self.legs[index].generation != generation or self.deposed:
            raise ReplicationError(f"cannot bring back replica {index}: {self.legs[index].why}")
