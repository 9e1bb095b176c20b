# SPDX-License-Identifier: BSD-3-Clause
"""A model of replicas with volatile caches, for proofs that acknowledged data survives.

A write that reaches a replica is in its cache.  Persisting it moves its lines (of a processor's
cache, or blocks of a device) to the media.  When the power fails, each line of the cache that was
not persisted is lost, or any of its versions survives, at random.  Everything comes from one
random.Random, so that a seed replays.

``unpersisted`` names steps whose writes end without being persisted, ``early`` steps whose writes
are reported before they are done: what a missing flush, or an acknowledgement one step early, does.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

from nvmf.replication.machine import Effect, Fenced, Kind, Machine, ReplicaError


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
    ) -> None:
        self.random = Random(seed)
        self.legs = [Media(self.random, size, line) for _ in range(legs)]
        self.unpersisted, self.early = unpersisted, early
        self.cut = [False] * legs
        self.frozen = [False] * legs
        self.flight: list[tuple[int, Machine, Effect]] = []
        """The operations in progress, with their writers."""
        self.late: list[Effect] = []
        """Writes that were reported before they were done."""

    def start(self, writer: int, core: Machine) -> None:
        """Take the core's effects."""
        while effects := core.take():
            for effect in effects:
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
            return True
        ready = [i for i, (_, _, e) in enumerate(self.flight) if not self.frozen[e.leg]]
        if not ready:
            return False
        writer, core, effect = self.flight.pop(self.random.choice(ready))
        self._do(writer, core, effect)
        return True

    def _do(self, writer: int, core: Machine, effect: Effect) -> None:
        leg = self.legs[effect.leg]
        if self.cut[effect.leg]:
            core.failed(effect, ReplicaError(f"replica {effect.leg} is out of reach"))
        elif effect.kind is Kind.FENCE:
            if writer < leg.writer:
                core.failed(effect, Fenced(f"replica {effect.leg} has a different writer"))
                self.start(writer, core)
                return
            leg.writer = writer
            self.drop(effect.leg)
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
        for effect in [e for e in self.late if e.leg == leg] + [e for _, _, e in mine]:
            if effect.kind is Kind.WRITE and self.random.random() < 0.5:
                self.legs[leg].write(effect.offset, effect.data)
        self.late = [effect for effect in self.late if effect.leg != leg]
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
