# SPDX-License-Identifier: BSD-3-Clause
"""The headers and the map of a Mirror's replicas: fencing, reading, checking, claiming."""

from __future__ import annotations

from nvmf.replication import mirrorformat as form
from nvmf.replication.machine import (
    Damaged,
    LegState,
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
                raise Damaged("it has no valid header of a mirror: it is new, or was overwritten")
            self.legs[index].slot = int(header == Header.decode(slots[1].result))
            shape = header.geometry
            if (header.index, shape.legs, shape.quorum) != (index, len(self.legs), self.quorum):
                raise Damaged(
                    f"it is replica {header.index} of a mirror of {shape.legs} replicas with a "
                    f"quorum of {shape.quorum}, not replica {index} of {len(self.legs)} with "
                    f"{self.quorum}"
                )
            self.fits(index, shape.start + shape.size, shape.block)
        except Damaged as error:
            self.lose(index, error)
            return None
        return header

    def _count_in(self, indices: list[int]) -> Steps[None]:
        """Claim replicas: first each counts its own joins, then all know of it.

        So the number that a replica has itself is never lower than what others have for it.
        """
        counts = list(self.joins)
        for index in indices:
            counts[index] += 1
        mine = {}
        for index in indices:
            mine[index] = [*self.joins]
            mine[index][index] = counts[index]
        yield from self._headers(mine)
        for index in indices:
            if self.legs[index].state is LegState.JOINING:
                self.joins[index] = counts[index]
        inside = [*self.joining(), *self.inside()]
        yield from self._headers(dict.fromkeys(inside, self.joins))

    def _headers(self, joins: dict[int, list[int]]) -> Steps[None]:
        """Write headers, each into the older slot of its replica."""
        while self.heading:  # one header at a time
            yield self.work
        self.heading = True
        self.seq += 1
        effects = []
        for index, counts in joins.items():
            header = Header(self.shape, index, self.epoch, self.seq, tuple(counts))
            at = (1 - self.legs[index].slot) * form.SLOT
            effects.append(self.write(index, at, header.encode(), "claim"))
        yield from self.all_of(effects)
        for effect in effects:
            if not effect.error and not self.gone(effect):
                self.legs[effect.leg].slot = effect.offset // form.SLOT
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
