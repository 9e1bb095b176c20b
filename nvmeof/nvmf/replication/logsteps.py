# SPDX-License-Identifier: BSD-3-Clause
"""Steps that the tasks of a Log are made of: headers, and reading the frames of a replica."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nvmf.replication import logformat as form
from nvmf.replication.logcore import LogCore, LogState
from nvmf.replication.logformat import Frame, Header
from nvmf.replication.machine import Damaged, LegState, QuorumLost, Steps

_CHUNK = 256 << 10


@dataclass
class Run:
    """The unbroken frames of a replica, from the head on."""

    frames: list[Frame]
    beyond: int = 0
    """The highest LSN that a frame after them says was acknowledged."""
    word: tuple[int, int] | None = None
    """Epoch and LSN up to which the replica's tail word says that it had frames."""
    marked: bool = False
    """The replica's tail word is not zero."""

    def rank(self, head: Header) -> tuple[int, int]:
        """The higher one has all that was acknowledged."""
        if not self.frames:
            return head.head_epoch, head.head
        return self.frames[-1].epoch, self.frames[-1].end


class LogSteps(LogCore):
    """Steps of its tasks."""

    def _headers(
        self, indices: Iterable[int], why: str, header: Header | None = None
    ) -> Steps[int]:
        """Write a header, into the older slot of each replica; the number that have it then."""
        header = header or self.header
        effects = []
        for index in indices:
            leg = self.legs[index]
            data = replace(header, index=index).encode()
            effects.append(self.write(index, (1 - leg.slot) * form.SLOT, data, why))
        yield from self.all_of(effects)
        stored = 0
        for effect in effects:
            if not effect.error and not self.gone(effect):
                self.legs[effect.leg].slot = effect.offset // form.SLOT
                stored += 1
        return stored

    def is_later(self, slots: list[bytes]) -> bool:
        """See LegMachine."""
        try:
            header = Header.best(slots)
        except Damaged:
            return False
        return (
            header is not None and header.same_log(self.header) and header.epoch > self.header.epoch
        )

    def _found(self) -> Steps[dict[int, Header]]:
        """Read the headers of the replicas that are being taken in."""
        found = {}
        for index in self.joining():
            header = yield from self._header_of(index)
            if header:
                found[index] = header
        return found

    def _header_of(self, index: int) -> Steps[Header | None]:
        slots = [self.read(index, at, form.SLOT) for at in (0, form.SLOT)]
        if not (yield from self.all_of(slots)):
            return None
        try:
            header = Header.best([effect.result for effect in slots])
            self.legs[index].slot = int(header == Header.decode(slots[1].result))
            if header is None:
                raise Damaged("it has no valid header of a log: it is new, or was overwritten")
            if (header.index, header.legs, header.quorum) != (index, len(self.legs), self.quorum):
                raise Damaged(
                    f"it is replica {header.index} of a log of {header.legs} replicas with a "
                    f"quorum of {header.quorum}, not replica {index} of {len(self.legs)} with "
                    f"{self.quorum}"
                )
            self.fits(index, header.start + header.capacity, header.unit)
        except Damaged as error:
            self.lose(index, error)
            return None
        return header

    def _scan(self, index: int) -> Steps[Run | None]:
        """Read the unbroken run of frames of a replica; None if it was lost."""
        run = Run([])
        at, prev, epoch = self.head, self.header.head_prev, self.header.head_epoch
        base, part = at, b""
        end = at + self.header.capacity
        while at < end:
            frame = form.decode_head(part[at - base : at - base + form.FRAME_HEAD], at)
            have = base + len(part) - at
            need = self._bytes(frame) if frame else form.FRAME_HEAD
            if have < need:
                fetched = yield from self._fetch(index, at, max(need, _CHUNK))
                if fetched is None:
                    return None
                base, part = at, fetched
                frame = form.decode_head(part[: form.FRAME_HEAD], at)
                if frame and len(part) < self._bytes(frame):
                    continue
            room = self.header.capacity - at % self.header.capacity
            if (
                frame is None
                or frame.prev != prev
                or not epoch <= frame.epoch <= self.header.epoch
                or frame.length > room
                or frame.end > end
            ):
                break
            data = part[at - base : at - base + self._bytes(frame)]
            if not form.whole(self.header.uuid, frame, data):
                break
            run.frames.append(frame)
            at, prev, epoch = frame.end, frame.crc, frame.epoch
        if self.header.tail and not (yield from self._read_word(index, run)):
            return None
        # If its tail word is that of its last frame, nothing that was acknowledged comes after it.
        if run.word != run.rank(self.header) and not (yield from self._beyond(index, run, at)):
            return None
        return run

    def _read_word(self, index: int, run: Run) -> Steps[bool]:
        """Read the tail word of a replica; False if it was lost."""
        effect = self.read(index, form.TAIL, self.header.unit)
        if not (yield from self.all_of([effect])):
            return False
        run.word = form.decode_tail(effect.result, self.header)
        run.marked = any(effect.result[:8])
        return True

    def _clear_word(self, index: int, run: Run | None, first: int) -> Steps[None]:
        """Clear the tail word of a replica on which frames from an LSN on are replaced, or whose
        word is no longer written: it must never cover frames that are not there.
        """
        if run is None or not run.marked:
            return
        if not self.tails(index) or (run.word is not None and run.word[1] > first):
            clear = self.write(index, form.TAIL, bytes(self.header.unit), "untail")
            yield from self.all_of([clear])

    def _bytes(self, frame: Frame) -> int:
        """The bytes of a frame that are written."""
        return self._least() if frame.kind == form.SKIP else frame.length

    def _beyond(self, index: int, run: Run, at: int) -> Steps[bool]:
        """Look for frames after the end of a run, which tell of damage; False if it was lost."""
        end = min(at + form.WINDOW, self.head + self.header.capacity)
        unit = self.header.unit
        while at < end:
            part = yield from self._fetch(index, at, _CHUNK)
            if part is None:
                return False
            for offset in range(0, len(part), unit):
                frame = form.decode_head(part[offset : offset + form.FRAME_HEAD], at + offset)
                if frame and frame.committed > run.beyond:
                    size = self._bytes(frame)
                    data = part[offset : offset + size]
                    if len(data) < size:
                        data = (yield from self._fetch(index, frame.lsn, size)) or b""
                    if form.whole(self.header.uuid, frame, data):
                        run.beyond = frame.committed
            at += len(part)
        return True

    def _fetch(self, index: int, lsn: int, length: int) -> Steps[bytes | None]:
        """Read from an LSN on, to the end of the ring at most; None if the replica was lost."""
        length = min(length, self.header.capacity - lsn % self.header.capacity)
        effect = self.read(index, self.place(lsn), length)
        yield from self.all_of([effect])
        return None if effect.error or self.gone(effect) else effect.result

    def _need(self, count: int, what: str, state: LegState = LegState.JOINING) -> None:
        if sum(leg.state is state for leg in self.legs) < count:
            raise QuorumLost(
                f"cannot {what}: {count} of {len(self.legs)} replicas are needed "
                f"({self.reasons()}); bring them back and try again"
            )

    def _require_open(self) -> None:
        if self.state is not LogState.OPEN:
            raise self._not_open()
