# SPDX-License-Identifier: BSD-3-Clause
"""The tasks of a Log: create, recover, truncate, read, and bring back a replica."""

from __future__ import annotations

from dataclasses import replace

from nvmf.replication import logformat as form
from nvmf.replication.logcore import LogState
from nvmf.replication.logformat import Frame, Header
from nvmf.replication.logsteps import LogSteps, Run
from nvmf.replication.machine import (
    Damaged,
    Deposed,
    LegState,
    QuorumLost,
    ReplicationError,
    Steps,
)


class LogTasks(LogSteps):
    """A log: what it does step by step."""

    # ---- headers ----

    def create(self, uuid: bytes, unit: int, capacity: int, *, tail: bool = False) -> Steps[object]:
        """Write the headers of a new log, with tail words or not; its earlier content is lost."""
        ring = capacity // unit * unit
        header = Header(uuid, len(self.legs), self.quorum, 0, unit, ring, tail=tail)
        least = form.LEAST * max(unit, form.FRAME_HEAD)
        if ring < least:
            raise ReplicationError(
                f"cannot create a log in {capacity} bytes: at least {least} are needed"
            )
        effects = []
        for index in range(len(self.legs)):
            slot = replace(header, index=index).encode()
            effects += [
                self.write(index, 0, slot, "header"),
                self.write(index, form.SLOT, bytes(len(slot)), "header"),
            ]
            if tail:
                effects.append(self.write(index, form.TAIL, bytes(unit), "header"))
        yield effects
        for effect in effects:
            if effect.error:
                raise ReplicationError(
                    f"cannot create the log on replica {effect.leg}: {effect.error}"
                )
        return None

    # ---- recovery ----

    def recover(self) -> Steps[object]:
        """Take the log over: afterwards it is open, and all that was acknowledged is there."""
        if self.state in (LogState.OPEN, LogState.DEPOSED):
            raise ReplicationError(f"cannot recover the log: it is {self.state}")
        for leg in self.legs:
            leg.state, leg.why = LegState.JOINING, ""
            leg.generation += 1
            leg.pending.clear()
        self.flight.clear()
        yield from self.fence(self.joining())
        found = yield from self._found()
        self._need(self.takeover, "open the log")
        headers = list(found.values())
        common = max(headers, key=lambda mine: sum(mine.same_log(other) for other in headers))
        for index, header in list(found.items()):
            if not header.same_log(common):
                self.lose(index, Damaged("it belongs to a different log"))
                del found[index]
        self._need(self.takeover, "open the log")
        top = max(found.values(), key=lambda header: (header.head, header.epoch))
        seq = max(header.seq for header in found.values()) + 1
        epoch = max(header.epoch for header in found.values()) + 1
        self.header = replace(top, epoch=epoch, seq=seq)
        yield from self._headers(self.joining(), "claim")
        self._need(self.takeover, "claim the log")
        runs: dict[int, Run] = {}
        for index in self.joining():
            run = yield from self._scan(index)
            if run:
                runs[index] = run
        self._need(self.takeover, "read the log")
        best = max(runs, key=lambda index: runs[index].rank(self.header))
        self.frames = list(runs[best].frames)
        self.acked = max([self.head, *(frame.committed for frame in self.frames)])
        beyond = max(run.beyond for run in runs.values())
        if beyond > self.tail:
            raise Damaged(
                f"the log is damaged at LSN {self.tail}: records up to LSN {beyond} were "
                "acknowledged, and no replica that is here has them whole; bring back the others"
            )
        self._check_words(runs, best)
        for index in self.joining():
            yield from self._replace(index, best, runs.get(index))
        yield from self._begin()
        return None

    def _check_words(self, runs: dict[int, Run], best: int) -> None:
        """Refuse to open the log if a replica has had frames that are whole on no replica."""
        for index, run in runs.items():
            if run.word is not None and run.word > runs[best].rank(self.header):
                raise Damaged(
                    f"the log is damaged at LSN {self.tail}: replica {index} had records up to "
                    f"LSN {run.word[1]}, and no replica that is here has them whole; bring back "
                    "the others"
                )

    def _replace(self, index: int, source: int, run: Run | None) -> Steps[int]:
        """Copy the frames that a replica lacks: see _copy()."""
        there = run.frames if run else []
        if self.header.tail:
            yield from self._clear_word(index, run, self._first_lacking(there))
        if index == source:
            return self.tail
        return (yield from self._copy(index, source, there))

    def _first_lacking(self, there: list[Frame]) -> int:
        """The LSN of the first frame that a replica lacks; the tail if it has all."""
        have = {frame.lsn: frame.crc for frame in there}
        lacking = (frame.lsn for frame in self.frames if have.get(frame.lsn) != frame.crc)
        return next(lacking, self.tail)

    def _copy(self, index: int, source: int, there: list[Frame], start: int = 0) -> Steps[int]:
        """Copy the frames that a replica lacks; the LSN up to which it has all then.

        Frames that are still on their way to the source, or come meanwhile, are not copied.
        """
        have = {frame.lsn: frame for frame in there}
        same = True
        leg = self.legs[source]
        upto = leg.prefix if leg.state is LegState.IN else self.tail
        for frame in [frame for frame in self.frames if frame.end <= upto]:
            other = have.get(frame.lsn)
            same = same and other is not None and other.crc == frame.crc
            if same or frame.lsn < max(start, self.head):
                continue
            data = yield from self._fetch(source, frame.lsn, self._bytes(frame))
            if frame.lsn < self.head:
                continue
            if data is None or not form.whole(self.header.uuid, frame, data):
                raise ReplicationError(
                    f"cannot copy the frame at LSN {frame.lsn} from replica {source} to replica "
                    f"{index}: {self.legs[source].why or 'it is damaged there'}; try again"
                )
            if not (
                yield from self.all_of([self.write(index, self.place(frame.lsn), data, "copy")])
            ):
                break
        return upto

    def _begin(self) -> Steps[None]:
        """Open the log with a frame of the new epoch, on a quorum.

        If there is no room for it, all replicas are needed: they are all the same now, so that no
        later writer can find a different end of the log, which is what the frame prevents.
        """
        for index in self.joining():
            self.legs[index].state = LegState.IN
            self.legs[index].prefix = self.tail
        if not self.put(form.EPOCH, b"", [], reserve=0):
            what = "open the log, which has no room even for a new epoch"
            self._need(len(self.legs), what, LegState.IN)
            self.progress()
        while self.acked < self.tail or self.flight:
            self._need(self.quorum, "open the log", LegState.IN)
            yield self.settled
        self.state = LogState.OPEN

    # ---- replicas that come back ----

    def rejoin(self, index: int) -> Steps[object]:
        """Bring a replica up to date while the log is in use."""
        leg = self.legs[index]
        if leg.state is not LegState.OUT or self.state is not LogState.OPEN:
            raise ReplicationError(
                f"cannot bring back replica {index}: it is {leg.state}, and the log {self.state}"
            )
        return (yield from self.bring_back(index, self._rejoin))

    def _rejoin(self, index: int, generation: int) -> Steps[None]:
        leg = self.legs[index]
        yield from self.fence_again(index)
        self._joined(index, generation)
        found = (yield from self._found()).get(index)
        self._joined(index, generation)
        if found is None or not found.same_log(self.header):
            raise Damaged("it belongs to a different log")
        if found.epoch > self.header.epoch:
            yield from self._not_taken_over(index)
            self._joined(index, generation)
        yield from self._claim(index, found.seq)
        self._joined(index, generation)
        run = yield from self._scan(index)
        self._joined(index, generation)
        upto = yield from self._replace(index, self._source(), run)
        self._joined(index, generation)
        self.held += 1
        try:
            while self.flight or self.truncating:
                self._joined(index, generation)
                yield self.settled
            self._joined(index, generation)
            yield from self._copy(index, self._source(), run.frames if run else [], upto)
            self._joined(index, generation)
            yield from self._claim(index, 0)
            self._joined(index, generation)
        except ReplicationError:
            self._release()
            raise
        leg.state, leg.prefix = LegState.IN, self.tail
        self._release()

    def _not_taken_over(self, index: int) -> Steps[None]:
        """Raise Deposed unless the writer that has claimed a replica, with a later epoch, has ended
        before it took over.

        One that has taken over has fenced more replicas than it can lack, so that some of those
        that are in would not be this writer's.  The other one has not written frames: the replica
        gets this writer's epoch again.
        """
        if (yield from self._still_mine()) is None:
            raise Deposed(f"a different writer has taken over: replica {index} has a later epoch")

    def _claim(self, index: int, seq: int) -> Steps[None]:
        """Write the header to a replica that comes back, as a newer one than all that it has."""
        self.header = replace(self.header, seq=max(self.header.seq, seq) + 1)
        yield from self._headers([index], "claim")

    def _release(self) -> None:
        self.held -= 1
        self.pump()

    def _source(self) -> int:
        return max(self.inside(), key=lambda index: self.legs[index].prefix)

    def _joined(self, index: int, generation: int) -> None:
        if self.state is not LogState.OPEN:
            raise ReplicationError(f"cannot bring back replica {index}: the log is {self.state}")
        if self.legs[index].generation != generation:
            raise ReplicationError(f"cannot bring back replica {index}: {self.legs[index].why}")

    # ---- truncation ----

    def truncate(self, lsn: int) -> Steps[object]:
        """Forget all records before the frame with this LSN; the new head."""
        while self.truncating:  # one header at a time
            yield self.settled
        self._require_open()
        if lsn > self.acked:
            raise ReplicationError(
                f"cannot truncate the log at LSN {lsn}: records are acknowledged up to LSN "
                f"{self.acked}"
            )
        place = len(self.frames) if lsn >= self.tail else self.frame_at(lsn)
        if place <= 0:
            return self.head
        last = self.frames[place - 1]
        self.truncating = True
        header = replace(
            self.header,
            seq=self.header.seq + 1,
            head=last.end,
            head_epoch=last.epoch,
            head_prev=last.crc,
        )
        self.header = replace(self.header, seq=header.seq)
        stored = yield from self._headers(self.inside(), "truncate", header)
        if stored >= self.quorum and self.state is LogState.OPEN:
            self.header = replace(header, seq=self.header.seq)
            self.frames = self.frames[self.frame_at(last.lsn) + 1 :]
        self.truncating = False
        self.settled.open()
        self.pump()
        self._require_open()
        if self.head < last.end:
            raise QuorumLost("cannot truncate the log: its quorum was lost meanwhile")
        return self.head

    # ---- reading ----

    def fetch(self, lsn: int) -> Steps[object]:
        """Read the frame with an LSN: its records, and the LSN of the next frame."""
        self._require_open()
        place = max(self.frame_at(lsn), 0)
        if lsn >= self.acked or place >= len(self.frames):
            return [], None
        frame = self.frames[place]
        for index in [i for i in self.inside() if self.legs[i].prefix >= frame.end]:
            data = yield from self._fetch(index, frame.lsn, self._bytes(frame))
            if frame.lsn < self.head:
                raise ReplicationError(f"the records at LSN {lsn} were truncated meanwhile")
            if data is not None and form.whole(self.header.uuid, frame, data):
                return list(form.records(frame, data)), frame.end
            self.lose(index, Damaged(f"its frame at LSN {frame.lsn} does not have its checksum"))
        raise Damaged(f"no replica that is here has the frame at LSN {frame.lsn} whole")
