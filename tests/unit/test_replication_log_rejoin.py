# SPDX-License-Identifier: BSD-3-Clause
"""Replicas of a log that come back with headers of writers that died."""

from __future__ import annotations

from dataclasses import replace

from nvmf.replication.logcore import Append, LogState
from nvmf.replication.logformat import SLOT, Header
from nvmf.replication.machine import Fenced, LegState, Op, ReplicaError
from nvmf.replication.recovery import LogTasks
from support.hands import Disks

UNIT, RING, LEGS = 64, 64 * 64, 3
LOST = ReplicaError("the cable is out")


class Logged(Disks[LogTasks]):
    """A log of three with a quorum of two, in memory."""

    def __init__(self) -> None:
        super().__init__(LogTasks(LEGS, 2), 2 * SLOT + RING, LEGS)
        self.done(self.core.run(Op(), self.core.create(bytes(16), UNIT, RING)))
        self.recover()

    def recover(self) -> None:
        """Let a new writer take over."""
        self.core = LogTasks(LEGS, 2)
        self.done(self.core.run(Op(), self.core.recover()))

    def hold_all(self, why: str) -> None:
        """Let no effect of a step end, on any replica."""
        self.hold = {(leg, why) for leg in range(LEGS)}

    def release_all(self) -> None:
        """End what was held."""
        for leg, why in sorted(self.hold):
            self.release(leg, why)

    def done(self, op: Op) -> object:
        """Return the result of an operation, which must end well."""
        self.go_on()
        assert op.error is None
        assert op.done
        return op.result

    def append(self, record: bytes) -> object:
        return self.done(self.core.append(Append(data=record)))

    def records(self) -> list[bytes]:
        """Return the records of the log."""
        found: list[bytes] = []
        lsn: object = self.core.head
        while isinstance(lsn, int):
            part = self.done(self.core.run(Op(), self.core.fetch(lsn)))
            assert isinstance(part, tuple)
            found += [record for _, record in part[0]]
            lsn = part[1]
        return found

    def header(self, leg: int) -> Header:
        """Return the header of a replica."""
        found = Header.best([bytes(self.disks[leg][at : at + SLOT]) for at in (0, SLOT)])
        assert found is not None
        return found

    def put(self, leg: int, header: Header) -> None:
        """Write a header as a different writer does: into the older slot."""
        slots = [Header.decode(bytes(self.disks[leg][at : at + SLOT])) for at in (0, SLOT)]
        at = SLOT if slots[0] == self.header(leg) else 0
        data = header.encode()
        self.disks[leg][at : at + len(data)] = data


def claimed() -> Logged:
    """Return a log whose replica 1 is out, and was claimed by a writer that died."""
    disks = Logged()
    disks.append(b"one")
    disks.core.lose(1, LOST)
    disks.append(b"two")
    mine = disks.header(1)
    disks.put(1, replace(mine, epoch=mine.epoch + 3, seq=mine.seq + 40))
    return disks


def test_a_writer_that_died_when_it_had_claimed_one_replica() -> None:
    disks = claimed()
    disks.done(disks.core.run(Op(), disks.core.rejoin(1)))
    assert disks.core.legs[1].state is LegState.IN
    assert disks.header(1).epoch == disks.header(0).epoch
    disks.append(b"three")
    disks.refuses = {2: LOST}
    disks.recover()
    assert disks.records() == [b"one", b"two", b"three"]


def test_a_writer_that_has_taken_over() -> None:
    disks = claimed()
    disks.refuses = {2: Fenced("a different writer has it")}
    op = disks.core.run(Op(), disks.core.rejoin(1))
    disks.go_on()
    assert "a different writer has taken over" in str(op.error)
    assert disks.core.state is LogState.DEPOSED


def test_too_few_replicas_to_know() -> None:
    disks = claimed()
    disks.refuses = {2: LOST}
    op = disks.core.run(Op(), disks.core.rejoin(1))
    disks.go_on()
    assert "the log is broken" in str(op.error)
    assert disks.core.state is LogState.BROKEN


def test_a_truncation_that_died_with_its_writer_is_forgotten() -> None:
    """Its header has the number that this writer's has: the newer one must be this writer's."""
    disks = Logged()
    for record in (b"one", b"two", b"three"):
        disks.append(record)
    frames = disks.core.frames
    mine, cut = disks.header(1), frames[-1]
    before = frames[-2]
    disks.put(
        1,
        replace(
            mine, seq=mine.seq + 1, head=cut.lsn, head_epoch=before.epoch, head_prev=before.crc
        ),
    )
    disks.refuses = {1: LOST}
    disks.recover()
    disks.refuses = {}
    assert disks.header(0).seq == disks.header(1).seq
    disks.hold_all("frame")
    disks.core.append(Append(data=b"four"))
    back = disks.core.run(Op(), disks.core.rejoin(1))
    disks.go_on()
    assert not back.done  # the replica has the header, and the frame is on its way
    assert disks.header(1).head == disks.core.head
    disks.held, disks.hold, disks.refuses = [], set(), {2: LOST}
    disks.recover()
    assert disks.records() == [b"one", b"two", b"three"]


def test_a_truncation_while_a_replica_comes_back() -> None:
    disks = Logged()
    disks.append(b"one")
    lsn = disks.append(b"two")
    disks.core.lose(1, LOST)
    disks.hold_all("truncate")
    assert isinstance(lsn, int)
    truncation = disks.core.run(Op(), disks.core.truncate(lsn))
    disks.go_on()
    back = disks.core.run(Op(), disks.core.rejoin(1))
    disks.go_on()
    assert not back.done
    disks.release_all()
    head = disks.done(truncation)
    disks.done(back)
    assert [disks.header(leg).head for leg in range(LEGS)] == [head] * LEGS


def test_a_replica_comes_back_while_frames_are_on_their_way() -> None:
    """They are copied when a quorum has them, and not from a replica that lacks them still."""
    disks = Logged()
    disks.core.lose(1, LOST)
    disks.append(b"one")
    disks.hold_all("frame")
    append = disks.core.append(Append(data=b"two"))
    back = disks.core.run(Op(), disks.core.rejoin(1))
    disks.go_on()
    assert not back.done
    disks.release_all()
    disks.done(append)
    disks.done(back)
    disks.refuses = {2: LOST}
    disks.recover()
    assert disks.records() == [b"one", b"two"]


def test_a_replica_that_comes_back_again_and_again() -> None:
    """Each of its headers is newer than all before."""
    disks = Logged()
    seen = [disks.header(1).seq]
    for _ in range(3):
        disks.core.lose(1, LOST)
        disks.done(disks.core.run(Op(), disks.core.rejoin(1)))
        seen.append(disks.header(1).seq)
    assert seen == sorted(set(seen))
