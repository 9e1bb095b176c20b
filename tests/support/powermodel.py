# SPDX-License-Identifier: BSD-3-Clause
"""A model of replicas with volatile caches, for proofs that acknowledged data survives.

A write that reaches a replica is in its cache.  Persisting it moves its lines (of a processor's
cache, or blocks of a device) to the media.  When the power fails, each line of the cache that was
not persisted is lost, or any of its versions survives, at random.  Everything comes from one
random.Random, so that a seed replays.

An append (an effect with a tail word) has four parts, in order: its data, the FLUSH of it, the
word, the FLUSH of that.  Power can fail between any two.  A replica carries appends out in order.

``unpersisted`` names steps whose writes end without being persisted, ``early`` steps whose writes
are reported before they are done: what a missing flush, or an acknowledgement one step early, does.
``skipped`` names steps whose writes are reported, and not done at all.
For a tail word, ``unpersisted`` "tail" omits its FLUSH, and ``early`` "tail" writes it ahead of its
data.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

from nvmf.replication.machine import Effect, Fenced, Kind, Machine, ReplicaError, Spread


class Media:
    """One replica's memory, and the cache in front of it."""

    def __init__(self, random: Random, size: int, line: int) -> None:
        self.random = random
        self.line = line
        self.media = bytearray(size)
        self.view = bytearray(size)
        """Contents, including the cache."""
        self.cache: defaultdict[int, list[bytes]] = defaultdict(list)
        """The versions of each line that was not persisted, in order."""
        self.writer = 0
        """The writer that fenced it last."""

    def write(self, offset: int, data: bytes) -> None:
        line = self.line
        self.view[offset : offset + len(data)] = data
        for at in range(offset // line * line, offset + len(data), line):
            self.cache[at].append(bytes(self.view[at : at + line]))

    def persist(self, offset: int, length: int) -> None:
        line = self.line
        for at in range(offset // line * line, offset + length, line):
            versions = self.cache.pop(at, None)
            if versions:
                self.media[at : at + line] = versions[-1]

    def flush(self) -> None:
        self.cache.clear()
        self.media[:] = self.view

    def power_fails(self) -> None:
        for at, versions in self.cache.items():
            chosen = self.random.randint(0, len(versions))
            if chosen:
                self.media[at : at + self.line] = versions[chosen - 1]
        self.cache.clear()
        self.view[:] = self.media


class Counter:
    """A write to several replicas whose answers the engine counts, as HostSpread and Shell do."""

    def __init__(self, rack: Rack, writer: int, core: Machine, spread: Spread) -> None:
        self.rack, self.writer, self.core, self.spread = rack, writer, core, spread
        self.live = spread.legs
        """The replicas whose answers were not reported to the core yet: a set of bits."""
        self.has = 0
        self.left = {leg: len(spread.offsets) for leg in spread.members()}
        self.errors: dict[int, Exception] = {}
        spread.progress = lambda: self.has & self.live
        for leg in spread.members():
            for effect in spread.parts(leg):
                effect.then = self.ended
                rack.enter(writer, core, effect)

    def ended(self, effect: Effect) -> None:
        leg = effect.leg
        self.left[leg] -= 1
        if effect.error and self.rack.early != "failed":
            self.errors[leg] = effect.error
        if self.left[leg]:
            return
        if leg in self.errors:
            self.tell(1 << leg)
            return
        self.has |= 1 << leg
        if self.rack.early == "count":
            self.has = self.spread.legs
        if not self.live & ~self.has:
            self.tell(0)

    def tell(self, failed: int) -> None:
        has = self.has & self.live
        failed &= self.live
        self.live &= ~(has | failed)
        if has:
            self.spread.answered(has)
        for leg in [leg for leg in self.spread.members() if failed >> leg & 1]:
            again = self.rack.choice.random() < 0.5
            for effect in self.spread.parts(leg):
                if again:
                    self.rack.enter(self.writer, self.core, effect)
                else:
                    self.core.failed(effect, self.errors[leg])


class Rack:
    """Replicas and the network to them, stepped by a simulation."""

    def __init__(
        self,
        seed: int,
        legs: int,
        size: int,
        *,
        line: int = 64,
        unpersisted: str = "",
        early: str = "",
        skipped: str = "",
        counted: float = 0.0,
    ) -> None:
        self.random = Random(seed)
        self.choice = Random(seed)
        """The random numbers of later additions, so that earlier seeds are unchanged."""
        self.counted = counted
        """The share of writes to several replicas whose answers are counted."""
        self.legs = [Media(self.random, size, line) for _ in range(legs)]
        self.unpersisted, self.early, self.skipped = unpersisted, early, skipped
        self.cut = [False] * legs
        self.frozen = [False] * legs
        self.flight: list[tuple[int, Machine, Effect]] = []
        """The operations in progress, with their writers."""
        self.late: list[Effect] = []
        """Writes that were reported before they were done."""
        self.parts: dict[Effect, int] = {}
        """Appends that were begun, with the number of their parts that were done."""
        self.ended: set[int] = set()
        """Replicas of which an append has failed: until it is opened again, none is carried out."""

    def start(self, writer: int, core: Machine) -> None:
        """Take the core's effects."""
        while effects := core.take():
            for effect in effects:
                if not isinstance(effect, Spread):
                    self.enter(writer, core, effect)
                elif self.choice.random() < self.counted:
                    Counter(self, writer, core, effect)
                else:
                    for leg in effect.members():
                        for part in effect.parts(leg):
                            self.enter(writer, core, part)

    def enter(self, writer: int, core: Machine, effect: Effect) -> None:
        """Begin one operation."""
        if effect.kind is Kind.WRITE and effect.why == self.early:
            self.late.append(effect)
            self._report(writer, core, effect)
        else:
            self.flight.append((writer, core, effect))

    def step(self) -> bool:
        """Finish one operation in progress, of any replica; return False if there is none."""
        if self.late and self.random.random() < 0.3:
            effect = self.late.pop(self.random.randrange(len(self.late)))
            self.legs[effect.leg].write(effect.offset, effect.data)
            self.legs[effect.leg].persist(effect.offset, len(effect.data))
            if effect.tail:
                self.legs[effect.leg].write(*effect.tail)
                self.legs[effect.leg].persist(effect.tail[0], len(effect.tail[1]))
            return True
        ready = self._ready()
        if not ready:
            return False
        at = self.random.choice(ready)
        writer, core, effect = self.flight.pop(at)
        if effect.tail and not self._refused(writer, effect) and not self._part(effect):
            self.flight.insert(at, (writer, core, effect))
            return True
        self._do(writer, core, effect)
        return True

    def _ready(self) -> list[int]:
        """The positions of the operations of which one can be continued: of a replica's appends,
        only the first.
        """
        ready = []
        appending = set()
        for i, (_, _, effect) in enumerate(self.flight):
            if self.frozen[effect.leg] or (effect.tail and effect.leg in appending):
                continue
            if effect.tail:
                appending.add(effect.leg)
            ready.append(i)
        return ready

    def _refused(self, writer: int, effect: Effect) -> bool:
        leg = effect.leg
        return self.cut[leg] or leg in self.ended or writer < self.legs[leg].writer

    def _part(self, effect: Effect) -> bool:
        """Do the next part of an append; whether it was the last one."""
        assert effect.tail is not None
        leg, (at, word) = self.legs[effect.leg], effect.tail
        done = self.parts.get(effect, 0)
        part = (done + 2) % 4 if self.early == "tail" else done
        if part == 0:
            leg.write(effect.offset, effect.data)
        elif part == 1 and self.unpersisted != effect.why:
            leg.persist(effect.offset, len(effect.data))
        elif part == 2:
            leg.write(at, word)
        elif part == 3 and self.unpersisted != "tail":
            leg.persist(at, len(word))
        self.parts[effect] = done + 1
        return done == 3

    def _do(self, writer: int, core: Machine, effect: Effect) -> None:
        leg = self.legs[effect.leg]
        if self.cut[effect.leg] or (effect.tail and effect.leg in self.ended):
            if effect.tail:
                self.ended.add(effect.leg)
            core.failed(effect, ReplicaError(f"replica {effect.leg} is out of reach"))
        elif effect.kind in (Kind.FENCE, Kind.RETURN):
            if writer < leg.writer:
                core.failed(effect, Fenced(f"replica {effect.leg} has a different writer"))
                self.start(writer, core)
                return
            leg.writer = writer
            self.drop(effect.leg)
            self.ended.discard(effect.leg)
            core.finished(effect)
        elif effect.kind is Kind.FLUSH:
            if effect.why != self.unpersisted:
                leg.flush()
            core.finished(effect)
        elif effect.kind is Kind.READ:
            if effect.offset + effect.length > len(leg.view):
                core.failed(effect, ReplicaError("the range is past the end"))
            else:
                data = leg.view[effect.offset : effect.offset + effect.length]
                core.finished(effect, bytes(data))
        elif writer < leg.writer:
            core.failed(effect, Fenced(f"replica {effect.leg} has a different writer"))
        elif effect.tail:
            del self.parts[effect]
            core.finished(effect)
        elif effect.why == self.skipped:
            core.finished(effect)
        else:
            leg.write(effect.offset, effect.data)
            if effect.why != self.unpersisted:
                leg.persist(effect.offset, len(effect.data))
            core.finished(effect)
        self.start(writer, core)

    def _report(self, writer: int, core: Machine, effect: Effect) -> None:
        if self.cut[effect.leg] or writer < self.legs[effect.leg].writer:
            core.failed(effect, ReplicaError(f"replica {effect.leg} is out of reach"))
        else:
            core.finished(effect)

    def drop(self, leg: int, *, told: bool = True) -> None:
        """End the operations in progress to a replica: each write has reached it or not."""
        mine = [entry for entry in self.flight if entry[2].leg == leg]
        self.flight = [entry for entry in self.flight if entry[2].leg != leg]
        appending = leg not in self.ended
        for effect in [e for e in self.late if e.leg == leg] + [e for _, _, e in mine]:
            if effect.tail:
                while appending and (appending := self.choice.random() < 0.8):
                    if self._part(effect):
                        break
                self.parts.pop(effect, None)
            elif effect.kind is Kind.WRITE and self.random.random() < 0.5:
                self.legs[leg].write(effect.offset, effect.data)
        self.late = [effect for effect in self.late if effect.leg != leg]
        if not appending:
            self.ended.add(leg)
        for writer, core, effect in mine:
            if told:
                core.failed(effect, ReplicaError(f"the connection to replica {leg} ended"))
                self.start(writer, core)

    def writer_dies(self) -> None:
        """End all writers, with their operations in progress."""
        self.frozen = [False] * len(self.legs)
        for leg in range(len(self.legs)):
            self.drop(leg, told=False)

    def power_fails(self, *, leg: int | None = None) -> None:
        """One replica, or everything with the writers, loses its power."""
        if leg is None:
            self.writer_dies()
            for media in self.legs:
                media.power_fails()
            return
        self.drop(leg)
        self.legs[leg].power_fails()
