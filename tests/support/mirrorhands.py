# SPDX-License-Identifier: BSD-3-Clause
"""The core of a mirror on replicas in memory, with a clock and with effects that a test ends."""

from __future__ import annotations

from nvmf.replication.machine import Op
from nvmf.replication.mirrorformat import SLOT, Geometry, Header
from nvmf.replication.mirrorparts import What
from nvmf.replication.pacing import Paced
from support.hands import Disks

BLOCK, REGION, REGIONS, LEGS = 512, 4096, 16, 3
DATA = b"\7" * BLOCK


def ended(op: Op) -> bool:
    """Return whether an operation has ended, which must be without an error."""
    assert op.error is None
    return op.done


class Hands(Disks[Paced]):
    """A mirror of three with a quorum of two, in memory; the test says when writes end."""

    def __init__(self) -> None:
        shape = Geometry(bytes(range(16)), LEGS, 2, BLOCK, REGION, REGIONS * REGION)
        super().__init__(Paced(LEGS, 2, patience=1.0), shape.start + shape.size, LEGS)
        self.core.clock = lambda: self.core.now
        for work in (self.core.create(shape), self.core.takeover_now()):
            op = self.core.run(Op(), work)
            self.go_on()
            assert op.done
            assert op.error is None

    def header(self, leg: int) -> Header:
        """Return the header of a replica."""
        found = Header.best([bytes(self.disks[leg][at : at + SLOT]) for at in (0, SLOT)])
        assert found is not None
        return found

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
