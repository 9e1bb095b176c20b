# SPDX-License-Identifier: BSD-3-Clause
"""The rules of a Log: who is acknowledged when, and what a new writer believes.

- A record is acknowledged when its frame and all frames before it are persistent on a quorum q of
  the n replicas: what counts on a replica is the unbroken run of frames, so that a frame is never
  acknowledged by replicas of which none has all that precedes it.
- A new writer needs max(q, n - q + 1) replicas.  It fences them, claims an epoch higher than any
  that it finds, takes the run of frames whose last one has the highest epoch (then the longest),
  copies it to the others, and ends it with a frame of its own epoch.  Only when a quorum has that
  frame is the log open.  (If there is no room for the frame, all replicas are needed.)  Any two
  sets of so many replicas, and each of them and each quorum, have a replica in common.
- Space is used again only when a quorum has the header with the new head.
- A replica's tail word says that it has had all frames before an LSN, the last of them with an
  epoch.  It is written behind each frame, and cleared before frames that it covers are replaced.
  So if it is ahead of every run, records that may have been acknowledged have been damaged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from nvmf.replication import logformat as form
from nvmf.replication.legs import Leg, LegMachine
from nvmf.replication.logformat import Frame, Header
from nvmf.replication.machine import (
    Effect,
    Fenced,
    Gate,
    LegState,
    Op,
    QuorumLost,
    ReplicationError,
)


class LogState(StrEnum):
    """The state of a log."""

    CLOSED = "closed"
    """The log was not recovered yet."""
    OPEN = "open"
    BROKEN = "broken"
    """Fewer replicas than the quorum are left: recover() again when they are back; or the log has
    stopped after an internal error.
    """
    DEPOSED = "deposed"
    """A different writer has taken over."""


class LogFull(ReplicationError):
    """The log has no room: truncate it."""


@dataclass(eq=False)
class LogLeg(Leg):
    """A replica as the core sees it."""

    pending: deque[Stored] = field(default_factory=deque)
    """Frames on their way to it, in order."""
    prefix: int = 0
    """All before this LSN is persistent on it."""


@dataclass(eq=False, slots=True)
class Stored:
    """A frame on its way to a replica."""

    frame: Frame
    done: bool = False


@dataclass(eq=False)
class Append(Op):
    """A record to be appended; its result is its LSN."""

    data: bytes = b""


class LogCore(LegMachine[LogLeg]):
    """See the module; nvmf.replication.recovery has the tasks."""

    def __init__(self, legs: int, quorum: int, *, depth: int = 4) -> None:
        if not 1 <= quorum <= legs:
            raise ValueError(f"a quorum of {quorum} of {legs} replicas")
        super().__init__([LogLeg() for _ in range(legs)], quorum)
        self.depth = depth
        self.reserve = form.RESERVE
        self.state = LogState.CLOSED
        self.header = Header(b"", legs, quorum, 0, 1, 0)
        self.frames: list[Frame] = []
        """From the head to the tail."""
        self.acked = 0
        """All before this LSN is acknowledged."""
        self.queue: deque[Append] = deque()
        self.flight: deque[tuple[Frame, list[tuple[Append, int]]]] = deque()
        """Frames that are not acknowledged, with their records and offsets."""
        self.held = 0
        """Tasks that want no new frames now."""
        self.truncating = False
        self.settled = Gate()
        """Opened whenever a frame is acknowledged or the log breaks."""

    # ---- what callers ask for ----

    @property
    def tail(self) -> int:
        """The LSN of the next frame."""
        return self.frames[-1].end if self.frames else self.header.head

    @property
    def head(self) -> int:
        """The LSN of the oldest frame."""
        return self.header.head

    @property
    def max_record(self) -> int:
        """Bytes of the longest record."""
        return min(form.MAX_FRAME, self.header.capacity // 4) - form.FRAME_HEAD - form.RECORD_HEAD

    def append(self, op: Append) -> Append:
        """Append a record; op ends when it is acknowledged."""
        if self.state is not LogState.OPEN:
            op.end(error=self._not_open())
        elif len(op.data) > self.max_record:
            op.end(
                error=ReplicationError(
                    f"cannot append a record of {len(op.data)} bytes: at most {self.max_record} "
                    "fit into a frame of this log; split it"
                )
            )
        else:
            self.queue.append(op)
            self.pump()
        return op

    def _not_open(self) -> ReplicationError:
        why = {
            LogState.CLOSED: "it was not recovered yet: call recover()",
            LogState.BROKEN: "too few replicas are left: bring them back and call recover()",
            LogState.DEPOSED: "a different writer has taken over",
            LogState.OPEN: "",
        }[self.state]
        return QuorumLost(f"cannot use the log: {why}")

    # ---- frames ----

    def pump(self) -> None:
        """Build frames of the records that wait, as far as the limits allow."""
        while self.queue and not self.held and self.state is LogState.OPEN:
            if len(self.flight) >= self.depth or self.tail - self.acked >= form.WINDOW:
                return
            chosen: list[tuple[Append, int]] = []
            parts: list[bytes] = []
            used = form.FRAME_HEAD
            limit = self.max_record + form.FRAME_HEAD + form.RECORD_HEAD
            while self.queue:
                size = form.RECORD_HEAD + len(self.queue[0].data)
                if used + size > limit:
                    break
                op = self.queue.popleft()
                chosen.append((op, used))
                parts.append(form.encode_record(op.data))
                used += size
            if not self.put(form.DATA, b"".join(parts), chosen):
                for op, _ in chosen:
                    op.end(
                        error=LogFull(
                            f"cannot append {len(op.data)} bytes: {self.tail - self.head} of the "
                            f"log's {self.header.capacity} are in use; truncate it"
                        )
                    )

    def put(
        self,
        kind: int,
        content: bytes,
        chosen: list[tuple[Append, int]],
        *,
        reserve: int | None = None,
    ) -> bool:
        """Write a frame to all replicas that are in; False if the log is full."""
        unit = self.header.unit
        length = -(-(form.FRAME_HEAD + len(content)) // unit) * unit
        room = self.header.capacity - self.tail % self.header.capacity
        skip = room if room < length else 0
        kept = (self.reserve if reserve is None else reserve) * self._least()
        spare = self.header.capacity - (self.tail - self.head) - kept
        if length + skip > spare:
            return False
        if skip:
            self._write(form.SKIP, skip, b"", [])
        self._write(kind, length, content, chosen)
        return True

    def _least(self) -> int:
        """The bytes of the shortest frame."""
        unit = self.header.unit
        return -(-form.FRAME_HEAD // unit) * unit

    def _write(
        self, kind: int, length: int, content: bytes, chosen: list[tuple[Append, int]]
    ) -> None:
        last = self.frames[-1] if self.frames else None
        frame = Frame(
            self.tail,
            length,
            self.header.epoch,
            0,
            last.crc if last else self.header.head_prev,
            kind,
            0,
            self.acked,
        )
        frame, data = form.encode_frame(self.header.uuid, frame, content, padded=kind != form.SKIP)
        data = data.ljust(self._least(), b"\0")
        self.frames.append(frame)
        self.flight.append((frame, chosen))
        most = min(2 * form.WINDOW, self.header.capacity)
        for index in self.inside():
            pending = self.legs[index].pending
            if pending and frame.end - pending[0].frame.lsn > most:
                self.lose(
                    index,
                    ReplicationError(
                        "it is too slow: it has not stored its oldest "
                        f"frame while {most} bytes came after it"
                    ),
                )
            else:
                self._send(index, frame, data)

    def _send(self, index: int, frame: Frame, data: bytes) -> None:
        leg = self.legs[index]
        stored = Stored(frame)
        why = "epoch" if frame.kind == form.EPOCH else "frame"
        leg.pending.append(stored)

        def ended(effect: Effect) -> None:
            if effect.generation != leg.generation or leg.state is not LegState.IN:
                return
            if effect.error:
                self.lose(index, effect.error)
                return
            stored.done = True
            while leg.pending and leg.pending[0].done:
                leg.prefix = leg.pending.popleft().frame.end
            self.progress()

        word = None
        if self.header.tail and self.tails(index):
            word = form.TAIL, form.encode_tail(frame, self.header.unit)
        self.write(index, self.place(frame.lsn), data, why, word).then = ended

    def place(self, lsn: int) -> int:
        """The offset on a replica."""
        return self.header.start + lsn % self.header.capacity

    def progress(self) -> None:
        """Acknowledge what a quorum has."""
        runs = sorted((leg.prefix for leg in self.legs if leg.state is LegState.IN), reverse=True)
        if len(runs) < self.quorum:
            return
        self.acked = max(self.acked, runs[self.quorum - 1])
        moved = False
        while self.flight and self.flight[0][0].end <= self.acked:
            frame, chosen = self.flight.popleft()
            moved = True
            for op, at in chosen:
                op.end(frame.lsn + at)
        if moved:
            self.settled.open()
            self.pump()

    # ---- replicas ----

    def lose(self, index: int, error: Exception) -> None:
        """A replica failed: go on without it, or end what cannot be acknowledged."""
        leg = self.legs[index]
        if leg.state is LegState.OUT:
            return
        leg.state, leg.why = LegState.OUT, str(error)
        leg.generation += 1
        leg.pending.clear()
        self.watch(index, leg.why)
        if isinstance(error, Fenced):
            self.stop(LogState.DEPOSED)
        elif len(self.inside()) < self.quorum:
            self.stop(LogState.BROKEN)
        else:
            self.progress()
            self.settled.open()

    def depose(self) -> None:
        """See LegMachine."""
        self.stop(LogState.DEPOSED)

    def stop(self, state: LogState) -> None:
        """End all operations: they may or may not have been done."""
        if self.state is LogState.OPEN:
            self.state = state
        error = QuorumLost(
            f"the log has lost its quorum of {self.quorum} replicas ({self.reasons()}): what was "
            "being appended may or may not be there after recover()"
        )
        waiting = [op for _, chosen in self.flight for op, _ in chosen] + list(self.queue)
        self.flight.clear()
        self.queue.clear()
        for op in waiting:
            op.end(error=error)
        self.settled.open()

    def frame_at(self, lsn: int) -> int:
        """The position in frames of the frame with an LSN; -1 if it is before the head."""
        return bisect_right(self.frames, lsn, key=lambda frame: frame.lsn) - 1
