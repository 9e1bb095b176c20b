# SPDX-License-Identifier: BSD-3-Clause
"""One seed of the proof of Log: appends, truncations, losses and power failures at any step.

With tail words, an acknowledged frame may also be damaged on all replicas: the log may then refuse
to open, but not open without the frame.  If some writers do not write tail words, only a frame is
damaged of which a later one says that it was acknowledged.
"""

from __future__ import annotations

import contextlib
from random import Random

from nvmf.replication import logformat as form
from nvmf.replication.logcore import Append, LogFull, LogState
from nvmf.replication.machine import Damaged, LegState, Op, QuorumLost, ReplicationError
from nvmf.replication.recovery import LogTasks
from support.powermodel import Rack

SHAPES = ((1, 1), (2, 1), (2, 2), (3, 2), (3, 2), (3, 2), (3, 3), (3, 1), (5, 3))
NARROW_SHAPES = ((3, 2), (3, 2), (5, 3))
"""Shapes in which a new writer does not need all replicas."""
UNIT = 64
RING = 96 * UNIT
SIZE = 8192 + RING
UUID = bytes(range(16))
STEPS = [
    ("frame", ""),
    ("epoch", ""),
    ("truncate", ""),
    ("claim", ""),
    ("copy", ""),
    ("flush", ""),
    ("", "frame"),
    ("", "epoch"),
    ("", "truncate"),
    ("", "copy"),
]
"""Writes that are not persisted, and that are reported early: see Rack."""
TAIL_STEPS = [*STEPS, ("tail", ""), ("", "tail")]
"""The same of a log with tail words."""


class Broken(AssertionError):
    """The log has broken a promise."""


class Refused(Exception):
    """The log does not open, because it is damaged."""


class LogProof:
    """A log on modelled replicas, and everything that it has promised."""

    def __init__(
        self,
        seed: int,
        *,
        unpersisted: str = "",
        early: str = "",
        skipped: str = "",
        tail: bool = False,
        damage: float = 0.0,
        mixed: bool = False,
        narrow: bool = False,
        dies: tuple[str, ...] = ("copy", "epoch"),
        line: int = UNIT,
    ) -> None:
        """Arguments:

        skipped: A write that is not done at all, see Rack.
        damage: How often an acknowledged frame is damaged on all replicas.
        mixed: Not all writers write tail words, also with damage.
        narrow: A new writer reaches only as many replicas as it needs, and often dies early;
            half of the logs become full.
        dies: The steps of recovery at which it often does: those after which replicas may differ.
        line: Bytes that survive together when the power fails.
        """
        size = SIZE + form.SLOT * tail
        self.rack = Rack(seed, 1, size)
        self.random = self.rack.random
        legs, self.quorum = self.random.choice(NARROW_SHAPES if narrow else SHAPES)
        self.rack = Rack(seed, legs, size, line=line)
        self.random = self.rack.random
        self.choice = Random(seed)
        """The random numbers of tail words, so that the seeds without them are unchanged."""
        self.tail = tail
        self.damage = damage
        self.mixed = mixed or not damage
        self.narrow = narrow
        self.dies = dies
        self.keeps = narrow and self.choice.random() < 0.5
        """The log is seldom truncated, so that there is no room even for new epochs."""
        self.damaged = self.refused = False
        self.writer = 0
        self.count = 0
        self.sent: dict[bytes, int | None] = {}
        """Records, with their LSN once they are acknowledged or were read."""
        self.head = 0
        self.fulls = self.checked = self.recoveries = 0
        core = LogTasks(legs, self.quorum)
        self.finish(core, core.run(Op(), core.create(UUID, UNIT, RING, tail=tail)))
        self.rack.unpersisted, self.rack.early, self.rack.skipped = unpersisted, early, skipped

    def finish(self, core: LogTasks, op: Op) -> None:
        """Run until an operation has ended."""
        self.rack.start(self.writer, core)
        while not op.done:
            if not self.rack.step():
                raise Broken(f"nothing is under way, and the operation has not ended: {core.state}")

    def start(self) -> LogTasks:
        """Recover, with power failures and losses in between."""
        for trial in range(100):
            core = LogTasks(len(self.rack.legs), self.quorum)
            able = self._able()
            core.tails = able.__getitem__
            if self.keeps:
                core.reserve = 1
            self.writer += 1
            legs = range(len(self.rack.legs))
            self.rack.cut = [trial < 50 and self.random.random() < 0.2 for _ in legs]
            if self.narrow and trial < 6:
                reached = self.choice.sample(legs, core.takeover)
                self.rack.cut = [leg not in reached for leg in legs]
            left = self.random.choice([1000000, self.random.randrange(60)])
            if self.narrow and trial < 6:
                left = self.choice.randrange(100)
            op = core.run(Op(), core.recover())
            self.rack.start(self.writer, core)
            while not op.done and left:
                left -= 1
                if self.narrow and trial < 6 and self._changes() and self.choice.random() < 0.3:
                    break
                if not self.rack.step():
                    raise Broken("recovery waits for nothing")
            if not op.done:
                self.fail()
                core.abandon()
                continue
            if op.error is None:
                self.recoveries += 1
                self.check(core)
                return core
            if self.damaged and isinstance(op.error, Damaged):
                self.refused = True
                core.abandon()
                raise Refused
            if not isinstance(op.error, QuorumLost):
                raise Broken(f"recovery failed: {op.error}")
            core.abandon()
        raise Broken("the log never opened")

    def _changes(self) -> bool:
        """Whether recovery is at a step at which the writer often dies."""
        return any(effect.why in self.dies for _, _, effect in self.rack.flight)

    def _able(self) -> list[bool]:
        """Whether each replica writes tail words, for the next writer."""
        if not self.tail:
            return [False] * len(self.rack.legs)
        return [not self.mixed or self.choice.random() < 0.8 for _ in self.rack.legs]

    def spoil(self, core: LogTasks) -> None:
        """Damage an acknowledged frame on all replicas."""
        known = self._told(core) if self.mixed else self._known()
        if not known or self.choice.random() >= self.damage:
            return
        lsn = known[-1] if self.choice.random() < 0.7 else self.choice.choice(known)
        at = 8192 + form.SLOT * self.tail + lsn % RING
        for media in self.rack.legs:
            media.media[at] ^= 0xFF
            media.view[at] ^= 0xFF
        self.damaged = True

    def _known(self) -> list[int]:
        """The LSNs of acknowledged records."""
        return sorted(at for at in self.sent.values() if at is not None and at >= self.head)

    def _told(self, core: LogTasks) -> list[int]:
        """The LSNs of frames of which a later one says that they were acknowledged, the first frame
        of the epoch last.
        """
        there = [frame for frame in core.frames if frame.end <= core.acked]
        told = [frame for frame in there if frame.end <= there[-1].committed]
        told.sort(key=lambda frame: (frame.epoch == core.header.epoch, -frame.lsn))
        return [frame.lsn for frame in told]

    def fail(self) -> None:
        if self.random.random() < 0.7:
            self.rack.power_fails()
        else:
            self.rack.writer_dies()

    def check(self, core: LogTasks) -> None:
        """Check that all acknowledged or read records exist, in order and complete."""
        head = core.head
        there: dict[bytes, int] = {}
        lsn: int | None = head
        while lsn is not None and lsn < core.tail:
            op = core.run(Op(), core.fetch(lsn))
            self.finish(core, op)
            if op.error:
                raise Broken(f"cannot read at LSN {lsn}: {op.error}")
            assert isinstance(op.result, tuple)
            found, lsn = op.result
            there |= {record: at for at, record in found}
        for record, at in there.items():
            if record not in self.sent:
                raise Broken(f"the record at LSN {at} was never appended")
            if self.sent[record] not in (None, at):
                raise Broken(f"a record moved from LSN {self.sent[record]} to {at}")
        for record, known in self.sent.items():
            if known is not None and known >= head and record not in there:
                raise Broken(f"the acknowledged record at LSN {known} is lost")
        if head < self.head:
            raise Broken(f"the head went back from {self.head} to {head}")
        self.sent = {record: there[record] for record in there}
        self.head = head
        self.checked += len(there)

    def append(self, core: LogTasks) -> None:
        self.count += 1
        size = self.random.choice([0, 8, 20, 100, 300])
        record = self.count.to_bytes(8, "little") + self.random.randbytes(size)
        self.sent[record] = None

        def then(op: Op) -> None:
            if op.error is None:
                assert isinstance(op.result, int)
                self.sent[record] = op.result
            elif isinstance(op.error, LogFull):
                self.fulls += 1
            elif not isinstance(op.error, QuorumLost):
                raise Broken(str(op.error))

        core.append(Append(then, data=record))

    def truncate(self, core: LogTasks) -> None:
        known = sorted(lsn for lsn in self.sent.values() if lsn is not None)
        if not known or (self.keeps and self.choice.random() < 0.9):
            return
        upto = self.random.choice(known)
        asked = core.head

        def then(op: Op) -> None:
            if op.error is None:
                assert isinstance(op.result, int)
                assert op.result >= asked
                self.head = max(self.head, op.result)

        core.run(Op(then), core.truncate(upto))

    def run(self, rounds: int = 3) -> None:
        rounds = 10 if self.narrow else rounds
        with contextlib.suppress(Refused):
            self._run(rounds)

    def _run(self, rounds: int) -> None:
        for _ in range(rounds):
            core = self.start()
            while self.keeps and not self.fulls and core.state is LogState.OPEN:
                self.append(core)
                self.rack.start(self.writer, core)
                self.rack.step()
            for _ in range(self.random.randrange(1, 16 if self.narrow else 120)):
                self.turn(core)
                self.rack.start(self.writer, core)
                if core.state is LogState.DEPOSED:
                    raise Broken("the only writer was deposed")
                if core.state is not LogState.OPEN:
                    break
            self.fail()
            core.abandon()
            self.spoil(core)
        self.rack.cut = [False] * len(self.rack.legs)
        self.start()

    def turn(self, core: LogTasks) -> None:
        """Do one thing at random."""
        chance = self.random.random()
        leg = self.random.randrange(len(self.rack.legs))
        if chance < 0.35:
            self.append(core)
        elif chance < 0.39:
            self.truncate(core)
        elif chance < 0.41:
            self.rack.cut[leg] = True
            self.rack.drop(leg)
            if self.random.random() < 0.5:
                self.rack.power_fails(leg=leg)
        elif chance < 0.5:
            if core.legs[leg].state is LegState.OUT:
                self.rack.cut[leg] = False
                core.run(Op(), core.rejoin(leg))
        else:
            self.rack.step()


__all__ = ["Broken", "LogProof", "ReplicationError"]
