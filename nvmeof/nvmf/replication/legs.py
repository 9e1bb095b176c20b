# SPDX-License-Identifier: BSD-3-Clause
"""Replicas as the cores of a Log and a Mirror see them, and the steps that both make on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nvmf.replication.machine import (
    Damaged,
    Deposed,
    Effect,
    Fenced,
    Kind,
    LegState,
    Machine,
    ReplicationError,
    Steps,
)

SLOT = 4096
"""Bytes of a header slot; a replica begins with two of them."""


@dataclass(eq=False)
class Leg:
    """A replica as a core sees it."""

    state: LegState = LegState.OUT
    why: str = "it was not opened yet"
    error: Exception | None = None
    """The same, as it was raised; None: it was never lost."""
    generation: int = 0
    """Grows whenever it is lost: effects of an earlier one count no more."""
    slot: int = 0
    """Its newer header slot."""
    had: bool = False
    """This writer has fenced it once."""


L = TypeVar("L", bound=Leg)


class LegMachine(Machine, ABC, Generic[L]):
    """A core on several replicas."""

    def __init__(self, legs: list[L], quorum: int) -> None:
        super().__init__()
        self.legs = legs
        self.quorum = quorum
        self.takeover = max(quorum, len(legs) - quorum + 1)
        """The replicas that a new writer needs."""
        self.room: Callable[[int], tuple[int, int]] = lambda leg: (1 << 64, 1)
        """Bytes of a replica, and of its blocks; known when it was fenced."""
        self.tails: Callable[[int], bool] = lambda leg: False
        """Whether a replica writes tail words; known when it was fenced."""
        self.watch: Callable[[int, str], None] = lambda leg, why: None
        """Called when a replica is lost."""

    @abstractmethod
    def lose(self, index: int, error: Exception) -> None:
        """A replica failed: go on without it."""

    @abstractmethod
    def depose(self) -> None:
        """A different writer has taken over: this one never writes again."""

    @abstractmethod
    def is_later(self, slots: list[bytes]) -> bool:
        """Whether header slots have the epoch of a later writer."""

    def inside(self) -> list[int]:
        """The replicas that are in."""
        return [i for i, leg in enumerate(self.legs) if leg.state is LegState.IN]

    def joining(self) -> list[int]:
        """The replicas that are being taken in."""
        return [i for i, leg in enumerate(self.legs) if leg.state is LegState.JOINING]

    def reasons(self) -> str:
        """Why replicas are out."""
        out = [(i, leg.why) for i, leg in enumerate(self.legs) if leg.state is LegState.OUT]
        return "; ".join(f"replica {i}: {why}" for i, why in out) or "no replica is out"

    def fits(self, index: int, size: int, block: int) -> None:
        """Raise Damaged if a replica is smaller than its header says, or has larger blocks."""
        room, unit = self.room(index)
        if room < size:
            raise Damaged(f"it has {room} bytes, and its header says that it has {size} or more")
        if block % unit:
            raise Damaged(f"it has blocks of {unit} bytes, and its header says {block}")

    # ---- effects ----

    def write(
        self,
        index: int,
        offset: int,
        data: bytes,
        why: str,
        tail: tuple[int, bytes] | None = None,
    ) -> Effect:
        """Issue a write to a replica, with the tail word behind it."""
        generation = self.legs[index].generation
        return self.issue(
            Effect(index, Kind.WRITE, offset, data, why=why, generation=generation, tail=tail)
        )

    def read(self, index: int, offset: int, length: int) -> Effect:
        """Issue a read of a replica."""
        generation = self.legs[index].generation
        return self.issue(
            Effect(index, Kind.READ, offset, length=length, why="read", generation=generation)
        )

    def gone(self, effect: Effect) -> bool:
        """Whether the effect's replica was lost since the effect began."""
        leg = self.legs[effect.leg]
        return leg.state is LegState.OUT or leg.generation != effect.generation

    def settle(self, effect: Effect) -> None:
        """If an effect failed, its replica is lost, unless it came back meanwhile."""
        if effect.error and not self.gone(effect):
            self.lose(effect.leg, effect.error)

    def all_of(self, effects: list[Effect]) -> Steps[bool]:
        """Wait for effects; a replica of which one failed is lost.  Whether all went well."""
        yield effects
        for effect in effects:
            self.settle(effect)
        return not any(effect.error or self.gone(effect) for effect in effects)

    # ---- steps ----

    def fence(self, indices: Iterable[int]) -> Steps[None]:
        """Fence replicas that are joining, and make persistent what has reached them."""
        chosen = list(indices)
        for kind in (Kind.FENCE, Kind.FLUSH):
            effects = [self._on(i, kind) for i in chosen if self.legs[i].state is LegState.JOINING]
            yield from self.all_of(effects)
            for effect in effects:
                self.legs[effect.leg].had |= not effect.error

    def fence_again(self, index: int) -> Steps[None]:
        """Fence a replica that comes back, and make persistent what has reached it.

        A different writer that has it is an earlier one, which could not be fenced yet, or one that
        has taken over.  The latter must keep it, or it would be deposed as well, and nobody could
        write.  It has fenced more replicas than it can lack, so if enough others are still this
        writer's, there is no such writer.
        """
        leg = self.legs[index]
        effect = self._on(index, Kind.RETURN)
        yield [effect]
        if isinstance(effect.error, Fenced) and not self.gone(effect):
            mine = yield from self._still_mine()
            if mine is not None and leg.had and mine <= len(self.legs) - self.takeover:
                self.depose()
                mine = None
            if mine is None:
                raise Deposed(
                    f"cannot bring back replica {index}: a different writer has taken over"
                )
            effect = self._on(index, Kind.FENCE)
            yield [effect]
        self.settle(effect)
        if not self.gone(effect):
            leg.had = True
            yield from self.all_of([self._on(index, Kind.FLUSH)])

    def _on(self, index: int, kind: Kind) -> Effect:
        why = Kind.FLUSH if kind is Kind.FLUSH else Kind.FENCE
        return self.issue(Effect(index, kind, why=why, generation=self.legs[index].generation))

    def _still_mine(self) -> Steps[int | None]:
        """Ask the replicas that are in whose they are.  How many are this writer's; None: it is
        deposed.
        """
        asked = {i: [self.read(i, at, SLOT) for at in (0, SLOT)] for i in self.inside()}
        effects = [effect for pair in asked.values() for effect in pair]
        fenced = not (yield from self.all_of(effects)) and any(
            isinstance(effect.error, Fenced) for effect in effects
        )
        mine = [pair for pair in asked.values() if not any(e.error or self.gone(e) for e in pair)]
        if fenced or any(self.is_later([effect.result for effect in pair]) for pair in mine):
            self.depose()
            return None
        return len(mine)

    def bring_back(self, index: int, work: Callable[[int, int], Steps[None]]) -> Steps[object]:
        """Take a replica that is out in again, with work(index, generation)."""
        leg = self.legs[index]
        leg.state, leg.why = LegState.JOINING, ""
        generation = leg.generation
        try:
            yield from work(index, generation)
        except ReplicationError as error:
            if leg.generation == generation:
                self.lose(index, error)
            raise
        return None
