# SPDX-License-Identifier: BSD-3-Clause
"""The core of a mirror on replicas in memory, with a clock and with effects that a test ends."""

from __future__ import annotations

from nvmf.replication.machine import Effect, Kind, Op, Spread
from nvmf.replication.mirrorformat import SLOT, Geometry, Header
from nvmf.replication.mirrorparts import What
from nvmf.replication.pacing import Paced

BLOCK, REGION, REGIONS, LEGS = 512, 4096, 16, 3
DATA = b"\7" * BLOCK


def parts(spread: Spread) -> list[Effect]:
    """Return the effects of a write to several replicas."""
    return [part for leg in spread.members() for part in spread.parts(leg)]


def ended(op: Op) -> bool:
    """Return whether an operation has ended, which must be without an error."""
    assert op.error is None
    return op.done


class Hands:
    """A mirror of three with a quorum of two, in memory; the test says when writes end."""

    def __init__(self) -> None:
        shape = Geometry(bytes(range(16)), LEGS, 2, BLOCK, REGION, REGIONS * REGION)
        self.disks = [bytearray(shape.start + shape.size) for _ in range(LEGS)]
        self.core = Paced(LEGS, 2, patience=1.0)
        self.core.clock = lambda: self.core.now
        self.hold: set[tuple[int, str]] = set()
        """Effects that do not end: those of a replica at a step of the protocol."""
        self.held: list[Effect] = []
        self.refuses: dict[int, Exception] = {}
        """Replicas that fail."""
        for work in (self.core.create(shape), self.core.takeover_now()):
            op = self.core.run(Op(), work)
            self.go_on()
            assert op.done
            assert op.error is None

    def go_on(self) -> None:
        """Do all that is to be done."""
        while found := self.core.take():
            for each in found:
                effects = [each] if isinstance(each, Effect) else parts(each)
                for effect in effects:
                    if (effect.leg, effect.why) in self.hold:
                        self.held.append(effect)
                    else:
                        self.end(effect)

    def end(self, effect: Effect) -> None:
        """Do one effect."""
        if effect.leg in self.refuses:
            self.core.failed(effect, self.refuses[effect.leg])
            return
        disk, at = self.disks[effect.leg], effect.offset
        if effect.kind is Kind.WRITE:
            disk[at : at + len(effect.data)] = effect.data
        self.core.finished(effect, bytes(disk[at : at + effect.length]))

    def header(self, leg: int) -> Header:
        """Return the header of a replica."""
        found = Header.best([bytes(self.disks[leg][at : at + SLOT]) for at in (0, SLOT)])
        assert found is not None
        return found

    def release(self, leg: int, why: str = "data") -> None:
        """End what was held."""
        self.hold.remove((leg, why))
        ready = [effect for effect in self.held if (effect.leg, effect.why) == (leg, why)]
        self.held = [effect for effect in self.held if effect not in ready]
        for effect in ready:
            self.end(effect)
        self.go_on()

    def tick(self, now: float) -> None:
        """Tell the time."""
        self.core.tick(now)
        self.go_on()

    def resynchronise(self) -> None:
        """Begin to copy."""
        for lane in range(self.core.most_lanes):
            self.core.run(Op(), self.core.resync(lane))
        self.go_on()

    def write(self, offset: int = 0) -> Op:
        """Begin to write a block."""
        op = self.core.submit(Op(), What.WRITE, offset, DATA)
        self.go_on()
        return op
