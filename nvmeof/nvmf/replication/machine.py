# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the cores of Mirror and Log: effects on replicas, and tasks that await them.

A core does no I/O and has no clock: it puts effects into an outbox, and is told of the end of each.
A write has ended well only when it is persistent.  The same calls in the same order always have the
same result, so that a seed of a simulation replays.  The rules of a core (who may be acknowledged
when) are callbacks and counters; what runs rarely (recovery, resynchronisation) is a generator,
which yields the effects or the gate that it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from nvmf.errors import Error

T = TypeVar("T")


class ReplicationError(Error):
    """Replication cannot go on as asked; str() says why, and what to do."""


class ReplicaError(ReplicationError):
    """An operation on one replica failed."""


class Fenced(ReplicaError):
    """The replica belongs to a different writer now, and refuses this one."""


class Deposed(ReplicationError):
    """A different writer has taken over: this one can never write again."""


class QuorumLost(ReplicationError):
    """Fewer replicas than the quorum are left; the operation may or may not have been done."""


class Damaged(ReplicationError):
    """The content of a replica is not what was written to it."""


class Blank(Damaged):
    """The replica has only zeroes where a header should be."""


class Misplaced(Damaged):
    """The replica belongs to the mirror, at a different index."""

    def __init__(self, text: str, index: int) -> None:
        super().__init__(text)
        self.index = index


class LegState(StrEnum):
    """The state of a replica."""

    OUT = "out"
    """The replica is not written to: it was lost, is damaged or was never opened."""
    JOINING = "joining"
    """The replica is being opened."""
    IN = "in"
    """The replica is written to: that of a mirror may lag in regions, which are resynchronised."""


class Kind(StrEnum):
    """The kind of an effect."""

    READ = "read"
    WRITE = "write"
    FENCE = "fence"
    """Become the only writer: afterwards no write of an earlier one can reach the replica."""
    RETURN = "return"
    """The same, after the replica was lost: Fenced if a different writer has it."""
    FLUSH = "flush"
    """Make persistent all data that has reached the replica, from any writer: until then, a new
    writer must not rely on data that it reads."""


@dataclass(eq=False, slots=True)
class Effect:
    """One operation on one replica, to be done by the owner of the core."""

    leg: int
    """Index of the replica."""
    kind: Kind
    offset: int = 0
    data: bytes = b""
    """The bytes to write."""
    length: int = 0
    """The bytes to read."""
    why: str = ""
    """The step of the protocol, for the proof, which takes its persistence away."""
    generation: int = 0
    """The connection that it belongs to: what ends after its replica was lost is ignored."""
    then: Callable[[Effect], None] | None = None
    result: bytes = b""
    error: Exception | None = None
    tail: tuple[int, bytes] | None = None
    """Offset and bytes of a tail word, which is written behind the data: see AppendReplica."""


def _nothing() -> int:
    return 0


@dataclass(eq=False, slots=True)
class Spread:
    """The same write to several replicas, to be done by the owner of the core.

    The owner either starts parts() of each replica, or counts: it calls answered() once, when all
    replicas have the write, and for one that fails it starts its parts() then.
    """

    legs: int
    """The replicas, a set of bits."""
    offsets: tuple[int, ...]
    data: bytes
    """The same number of bytes for each offset."""
    why: str
    generations: tuple[int, ...]
    """The generation of each replica."""
    ended: Callable[[Effect], None]
    """Called when the write to one replica has ended, with its last effect, or one that failed."""
    answered: Callable[[int], None]
    """Called with replicas, a set of bits, that have the write persistently."""
    progress: Callable[[], int] = _nothing
    """Set by an owner that counts: the replicas that have the write so far, a set of bits."""

    def members(self) -> list[int]:
        """The replicas."""
        return [index for index in range(len(self.generations)) if self.legs >> index & 1]

    def parts(self, leg: int) -> list[Effect]:
        """Return the effects of the write to one replica."""
        length = len(self.data) // len(self.offsets)
        left = len(self.offsets)
        bad: Effect | None = None

        def ended(effect: Effect) -> None:
            nonlocal left, bad
            left -= 1
            bad = effect if effect.error else bad
            if not left:
                self.ended(bad or effect)

        return [
            Effect(
                leg,
                Kind.WRITE,
                offset,
                self.data[i * length : (i + 1) * length],
                why=self.why,
                generation=self.generations[leg],
                then=ended,
            )
            for i, offset in enumerate(self.offsets)
        ]


class Gate:
    """A condition that tasks wait for."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def open(self) -> None:
        """Continue each task that waits."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            step(task)


Waiting = Sequence[Effect] | Gate
Task = Generator[Waiting, None, object]
Steps = Generator[Waiting, None, T]


@dataclass(eq=False)
class Op:
    """An operation that a caller asked for."""

    then: Callable[[Op], None] | None = None
    """Called when it ends."""
    done: bool = False
    error: Exception | None = None
    result: object = None

    def end(self, result: object = None, error: Exception | None = None) -> None:
        """End the operation; only the first call has an effect."""
        if self.done:
            return
        self.done, self.result, self.error = True, result, error
        if self.then:
            self.then(self)

    def end_as(self, other: Op) -> None:
        """End as a different operation has ended."""
        self.end(other.result, other.error)


def step(task: Task) -> None:
    """Run a task until it waits."""
    while True:
        try:
            waiting = next(task)
        except StopIteration:
            return
        if isinstance(waiting, Gate):
            waiting.tasks.append(task)
            return
        if not waiting:
            continue
        left = len(waiting)

        def ended(_: Effect) -> None:
            nonlocal left
            left -= 1
            if not left:
                step(task)

        for effect in waiting:
            effect.then = ended
        return


@dataclass
class Machine:
    """The outbox of a core."""

    outbox: list[Effect | Spread] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    def abandon(self) -> None:
        """End all tasks where they are: the core is not used again."""
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task.close()

    def take(self) -> list[Effect | Spread]:
        """Return the effects that are to be started, in order."""
        effects, self.outbox = self.outbox, []
        return effects

    def finished(self, effect: Effect, result: bytes = b"") -> None:
        """An effect was done: a read with these bytes, a write persistently."""
        effect.result = result
        self._ended(effect)

    def failed(self, effect: Effect, error: Exception) -> None:
        """An effect failed, and what it would have written may be there, or in part."""
        effect.error = error
        self._ended(effect)

    def _ended(self, effect: Effect) -> None:
        if effect.then:
            effect.then(effect)

    def withdraw(self, op: Op) -> None:
        """Forget what an operation has not begun, because nobody waits for it."""

    def issue(self, effect: Effect) -> Effect:
        """Put an effect into the outbox."""
        self.outbox.append(effect)
        return effect

    def run(self, op: Op, work: Steps[object]) -> Op:
        """Run work as a task, whose end is that of op."""

        def task() -> Steps[None]:
            try:
                result = yield from work
            except ReplicationError as error:
                op.end(error=error)
            else:
                op.end(result)
            self.tasks.remove(running)

        running = task()
        self.tasks.append(running)
        step(running)
        return op
