# SPDX-License-Identifier: BSD-3-Clause
"""One seed of the proof of Mirror: concurrent reads and writes, losses and power failures.

The replicas write blocks whole or not at all; a write of several blocks may be torn between them.
All reads and writes go into a history, which must be linearizable for each block.
"""

from __future__ import annotations

from math import inf
from random import Random

from nvmf.replication.history import Access, violation
from nvmf.replication.machine import Deposed, LegState, Op, QuorumLost
from nvmf.replication.mirrorformat import Geometry
from nvmf.replication.mirrormany import submit_many
from nvmf.replication.mirrorparts import What
from nvmf.replication.mirrortasks import MirrorTasks
from support.powermodel import Rack

SHAPES = ((1, 1), (2, 1), (2, 2), (3, 2), (3, 2), (3, 2), (3, 3), (3, 1), (4, 2), (5, 3))
BLOCK, REGION, BLOCKS = 64, 256, 76
UUID = bytes(range(16))
STEPS = [
    ("data", ""),
    ("map", ""),
    ("claim", ""),
    ("copy", ""),
    ("flush", ""),
    ("", "data"),
    ("", "map"),
    ("", "claim"),
    ("", "copy"),
]
"""Writes that are not persisted, and that are reported early: see Rack."""


class Broken(AssertionError):
    """The mirror has broken a promise."""


class MirrorProof:
    """A mirror on modelled replicas, and the history of its blocks."""

    def __init__(
        self,
        seed: int,
        *,
        unpersisted: str = "",
        early: str = "",
        counted: float = 0.5,
        many: float = 0.3,
        beats: float = 0.5,
    ) -> None:
        """
        Args:
            seed: Everything follows from it.
            unpersisted: See Rack.
            early: See Rack; or "count" or "failed", of the engine's count: a write is reported
                when the first replica has it, or a replica that failed counts.
            counted: The share of writes whose answers the engine counts.
            many: The share of calls that write many blocks.
            beats: The share of writers that count their replicas in again now and then.
        """
        rack = Rack(seed, 1, 0)
        legs, self.quorum = rack.random.choice(SHAPES)
        self.shape = Geometry(UUID, legs, self.quorum, BLOCK, REGION, BLOCKS * BLOCK)
        size = self.shape.start + self.shape.size
        self.rack = Rack(seed, legs, size, line=BLOCK, counted=counted)
        self.many = many
        self.later = Random(f"{seed} beats")
        self.beats = beats
        self.random = self.rack.random
        self.busy = self.random.choice([4, 20, BLOCKS])
        """Blocks that are used."""
        self.writer = self.count = self.now = 0
        self.takeovers = self.synced = self.reads = 0
        self.history: list[list[Access]] = [[] for _ in range(BLOCKS)]
        self.under_way: dict[int, tuple[int, list[int]]] = {}
        """Start and blocks of each write that was not acknowledged."""
        core = self.core()
        self.finish(core, core.run(Op(), core.create(self.shape)))
        self.rack.unpersisted, self.rack.early = unpersisted, early

    def core(self) -> MirrorTasks:
        core = MirrorTasks(len(self.rack.legs), self.quorum, patience=3, most_open=4)
        core.chunk = self.random.choice([64, 128])
        core.most_chunks = self.random.choice([1, 2, 4])
        return core

    def step(self, core: MirrorTasks) -> bool:
        self.now += 1
        return self.rack.step()

    def finish(self, core: MirrorTasks, op: Op) -> None:
        """Run until an operation has ended."""
        self.rack.start(self.writer, core)
        idle = 0
        while not op.done:
            if self.step(core):
                idle = 0
                continue
            core.tick(self.now + 1000.0)
            self.rack.start(self.writer, core)
            idle += 1
            if idle > 2:
                raise Broken(f"nothing is under way, and the operation waits: {core.state}")

    def start(self) -> MirrorTasks:
        """Take over, with power failures and losses in between."""
        for trial in range(100):
            core = self.core()
            self.writer += 1
            chance = 0.2 if trial < 50 else 0.0
            self.rack.cut = [self.random.random() < chance for _ in self.rack.legs]
            left = self.random.choice([1000000, self.random.randrange(40)])
            op = core.run(Op(), core.takeover_now())
            self.rack.start(self.writer, core)
            while not op.done and left:
                left -= 1
                if not self.step(core):
                    raise Broken("the takeover waits for nothing")
            if not op.done:
                self.fail()
            elif op.error is None:
                self.takeovers += 1
                for lane in range(core.most_lanes):
                    core.run(Op(), core.resync(lane))
                if self.later.random() < self.beats:
                    core.beat = self.later.randrange(5, 100)
                    core.run(Op(), core.beats())
                self.check(core)
                return core
            elif not isinstance(op.error, QuorumLost):
                raise Broken(f"the takeover failed: {op.error}")
            core.abandon()
        raise Broken("the mirror never opened")

    def fail(self) -> None:
        if self.random.random() < 0.7:
            self.rack.power_fails()
        else:
            self.rack.writer_dies()

    def write(self, core: MirrorTasks) -> None:
        self.count += 1
        mine = self.count
        blocks = self.random.choice([1, 1, 2, 5])
        lba = self.random.randrange(max(self.busy - blocks, 1))
        chosen = list(range(lba, lba + blocks))
        many = self.rack.choice.random() < self.many
        if many:
            count = self.rack.choice.randrange(1, min(self.busy, 12))
            chosen = self.rack.choice.sample(range(self.busy), count)
        self.under_way[mine] = (self.now, chosen)
        words = ((mine << 8 | i).to_bytes(8, "little") for i in range(len(chosen)))
        data = b"".join(word * (BLOCK // 8) for word in words)

        def then(op: Op) -> None:
            if op.error is None:
                self.written(mine, self.now)
            elif not isinstance(op.error, Deposed):
                raise Broken(str(op.error))

        if many:
            submit_many(core, Op(then), [at * BLOCK for at in chosen], data, BLOCK)
        else:
            core.submit(Op(then), What.WRITE, lba * BLOCK, data)

    def written(self, mine: int, end: float) -> None:
        start, chosen = self.under_way.pop(mine)
        for i, lba in enumerate(chosen):
            self.history[lba].append(Access(mine << 8 | i, start, end, True))

    def read(self, core: MirrorTasks) -> Op:
        blocks = self.random.choice([1, 1, 2, 5])
        lba = self.random.randrange(max(self.busy - blocks, 1))
        return self.read_at(core, lba, blocks)

    def read_at(self, core: MirrorTasks, lba: int, blocks: int) -> Op:
        start = self.now

        def then(op: Op) -> None:
            if op.error:
                return
            assert isinstance(op.result, bytes)
            self.reads += 1
            for i in range(blocks):
                block = op.result[i * BLOCK : (i + 1) * BLOCK]
                if block != block[:8] * (BLOCK // 8):
                    raise Broken(f"block {lba + i} is torn")
                value = int.from_bytes(block[:8], "little") or None
                self.history[lba + i].append(Access(value, start, self.now, False))

        return core.submit(Op(then), What.READ, lba * BLOCK, length=blocks * BLOCK)

    def check(self, core: MirrorTasks) -> None:
        """Read everything."""
        for lba in range(self.busy):
            self.finish(core, self.read_at(core, lba, 1))

    def judge(self) -> None:
        for mine in list(self.under_way):
            self.written(mine, inf)
        for lba, accesses in enumerate(self.history):
            why = violation(accesses)
            if why:
                raise Broken(f"block {lba}: {why}")

    def run(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            core = self.start()
            for _ in range(self.random.randrange(1, 150)):
                self.now += 1
                self.turn(core)
                self.rack.start(self.writer, core)
            self.fail()
            core.abandon()
        self.rack.cut = [False] * len(self.rack.legs)
        core = self.start()
        self.check(core)
        self.settle(core)
        core.abandon()
        self.judge()

    def settle(self, core: MirrorTasks) -> None:
        """With all replicas back and nothing to do, they are equal in the end."""
        self.rack.cut = [False] * len(self.rack.legs)
        for index, leg in enumerate(core.legs):
            if leg.state is LegState.OUT:
                self.finish(core, core.run(Op(), core.rejoin(index)))
        while self.step(core):
            pass
        if any(region.lag for region in core.regions()):
            raise Broken("replicas are back, and lag forever")
        start = self.shape.start
        first = self.rack.legs[0].view[start:]
        if any(media.view[start:] != first for media in self.rack.legs):
            raise Broken("all replicas are clean, and differ")
        self.check(core)

    def turn(self, core: MirrorTasks) -> None:
        """Do one thing at random."""
        chance = self.random.random()
        leg = self.random.randrange(len(self.rack.legs))
        if chance < 0.2:
            self.write(core)
        elif chance < 0.3:
            self.read(core)
        elif chance < 0.33:
            core.tick(self.now)
        elif chance < 0.35:
            self.rack.cut[leg] = True
            self.rack.drop(leg)
            if self.random.random() < 0.5:
                self.rack.power_fails(leg=leg)
        elif chance < 0.37:
            self.rack.frozen[leg] = not self.rack.frozen[leg]
        elif chance < 0.42:
            if core.legs[leg].state is LegState.OUT:
                self.rack.cut[leg] = self.rack.frozen[leg] = False
                core.run(Op(), core.rejoin(leg))
        else:
            self.rack.step()
