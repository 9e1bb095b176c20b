# SPDX-License-Identifier: BSD-3-Clause
"""The rules of a Mirror: when a write is acknowledged, and which replicas may be read.

The data consists of regions.  The dirty map has an entry for each: whether it is open (writes may
be under way), and which replicas lag (may lack writes that were acknowledged).  A replica that does
not lag in a region is called clean in it.

- A region is open, persistently on a quorum, before the first write to it is sent.
- A write goes to every clean replica.  It is acknowledged when at least a quorum of them has it,
  and each replica that does not is marked as lagging, persistently on a quorum.  So a clean replica
  has all that was acknowledged, always.
- A read goes to a clean replica.  It waits for writes of the same blocks that are not acknowledged,
  and they for it: no reader sees data that a failure can revert.
- A replica is clean again when its region was copied from a clean one.  From the moment that the
  map without its mark is on the way, writes wait for it again.
"""

from __future__ import annotations

from collections import deque

from nvmf.replication import mirrorformat as form
from nvmf.replication.machine import (
    Effect,
    Fenced,
    LegState,
    Op,
    ReplicationError,
    Spread,
)
from nvmf.replication.mirrorbase import MirrorBase
from nvmf.replication.mirrorparts import Page, Piece, Region, What


class MirrorCore(MirrorBase):
    """See the module; nvmf.replication.mirrortasks has the tasks."""

    # ---- what callers ask for ----

    def submit(self, op: Op, what: What, offset: int, data: bytes = b"", length: int = 0) -> Op:
        """Read or write whole blocks; op ends with the bytes read."""
        length = length or len(data)
        if offset < 0 or length <= 0 or offset + length > self.shape.size:
            raise ValueError(f"{length} bytes at {offset} are not in the {self.shape.size} bytes")
        if offset % self.shape.block or length % self.shape.block:
            raise ValueError(f"{length} bytes at {offset} are not blocks of {self.shape.block}")
        if self.deposed or not self.opened:
            op.end(error=self.refusal())
            return op
        result = bytearray(0 if what is What.WRITE else length)
        pieces = []
        left = 0

        def done(piece: Piece) -> None:
            nonlocal left
            left -= 1
            if what is What.READ:
                result[piece.start - offset : piece.end - offset] = piece.data
            if not left:
                self.ops.pop(op, None)
                op.end(bytes(result))

        at = offset
        while at < offset + length:
            region = self.region(at // self.shape.region)
            end = min(offset + length, (region.index + 1) * self.shape.region)
            part = data[at - offset : end - offset]
            pieces.append(Piece(what, region, at, end, done, part))
            at = end
        left = len(pieces)
        self.ops[op] = pieces
        for piece in pieces:
            piece.region.waiting.append(piece)
        for piece in pieces:
            self.advance(piece.region)
        return op

    def withdraw(self, op: Op) -> None:
        """See Machine: a mirror without a quorum would keep all that was ever asked for."""
        pieces = self.ops.pop(op, None)
        if pieces is None:
            return
        op.end(error=ReplicationError("it was given up"))
        for piece in list(pieces):
            region = piece.region
            if piece in region.waiting:
                region.waiting.remove(piece)
                self.advance(region)

    # ---- pieces ----

    def advance(self, region: Region) -> None:
        """Begin the pieces that nothing hinders."""
        if self.deposed:
            return
        if region.advancing:
            region.again = True
            return
        if not region.waiting:
            if region.idle:
                region.page.regions.pop(region.index, None)
            return
        region.advancing = region.again = True
        while region.again:
            region.again = False
            waiting, region.waiting = region.waiting, deque()
            held: deque[Piece] = deque()
            for piece in waiting:
                if (
                    any(other.hinders(piece) for other in region.active)
                    or any(other.hinders(piece) for other in held)
                    or not self._begin(piece)
                ):
                    held.append(piece)
            region.waiting = held + region.waiting
        region.advancing = False
        if region.idle:
            region.page.regions.pop(region.index, None)

    def _begin(self, piece: Piece) -> bool:
        region = piece.region
        if piece.what is What.READ:
            return self._read(piece)
        if piece.what is What.WRITE:
            if not region.open:
                self._open(region)
            if not self.effective(region.page, region.open):
                return False
            self.opens[region.index] = self.opens.pop(region.index)
            self.written = True
            piece.began = self.now
            region.active.append(piece)
            legs = 0
            for index in self.inside():
                legs |= 1 << index
            piece.out = legs & region.takers
            if piece.out:
                piece.spread = spread = self._spread(piece, piece.out)
                self.outbox.append(spread)
            if not self._must_wait(piece):
                self.evaluate(piece)
            return True
        region.active.append(piece)
        if piece.what is What.SEAL:
            self.finish(piece)
        else:
            self._copy(piece)
        return True

    def finish(self, piece: Piece) -> None:
        """A piece has ended."""
        piece.region.active.remove(piece)
        piece.done(piece)
        self.advance(piece.region)

    def _read(self, piece: Piece) -> bool:
        inside = self.inside()
        ready = [i for i in inside if not piece.region.lag >> i & 1]
        if len(inside) < self.quorum or not ready:
            return False
        self.turn += 1
        index = ready[self.turn % len(ready)]
        piece.region.active.append(piece)

        def ended(effect: Effect) -> None:
            if effect.error:
                piece.region.active.remove(piece)
                piece.region.waiting.appendleft(piece)
                self.settle(effect)
                self.advance(piece.region)
                return
            piece.data = effect.result
            self.finish(piece)

        self.read_data(index, piece.start, piece.end - piece.start).then = ended
        return True

    def send(self, piece: Piece, index: int) -> None:
        """Send a write to one more replica."""
        piece.out |= 1 << index
        for effect in self._spread(piece, 1 << index).parts(index):
            self.issue(effect)

    def _spread(self, piece: Piece, legs: int) -> Spread:
        start = self.shape.start
        places = tuple(start + at for at in piece.places) or (start + piece.start,)

        def ended(effect: Effect) -> None:
            bit = 1 << effect.leg
            piece.out &= ~bit
            if effect.error:
                self.settle(effect)
            else:
                piece.has |= bit
                if self._must_wait(piece):
                    return
            self.evaluate(piece)

        def answered(has: int) -> None:
            piece.out &= ~has
            piece.has |= has
            if not self._must_wait(piece):
                self.evaluate(piece)

        generations = tuple([leg.generation for leg in self.legs])
        return Spread(legs, places, piece.data, "data", generations, ended, answered)

    def _must_wait(self, piece: Piece) -> bool:
        """Whether evaluate() would change nothing, in the usual case: no replica lags or is lost,
        and some have not answered yet.
        """
        everyone = (1 << len(self.legs)) - 1
        return (
            bool(piece.out)
            and piece.has | piece.out == everyone
            and not (piece.acked or piece.region.lag)
            and self.now - piece.began < self.patience
        )

    def evaluate(self, piece: Piece) -> None:
        """Acknowledge a write if it may be, or mark the replicas that it does not wait for."""
        region = piece.region
        if piece.spread is not None and piece.out:
            has = piece.spread.progress() & piece.out  # of those that were not reported yet
            piece.out &= ~has
            piece.has |= has
        if piece.acked:
            if not piece.out and piece in region.active:
                region.active.remove(piece)
                self.advance(region)
                self.work.open()
            return
        everyone = (1 << len(self.legs)) - 1
        clean = everyone & ~region.lag
        if clean.bit_count() < self.quorum:
            self.wanted[region.index] = region
        if (piece.has & clean).bit_count() >= self.quorum:
            piece.reached = piece.reached or self.now
            late = self.now - piece.reached >= self.patience
            for index in range(len(self.legs)):
                bit = 1 << index
                if clean & bit & ~piece.has and (not piece.out & bit or late):
                    self.mark(region, index)
            needed = everyone & ~self._surely_lag(region)
            if not needed & ~piece.has:
                piece.acked = True
                if not piece.out:
                    region.active.remove(piece)
                piece.done(piece)
        self.advance(region)
        self.work.open()

    def _surely_lag(self, region: Region) -> int:
        """The replicas that every version of the map that may survive names."""
        sure = 0
        for index, version in region.since.items():
            if region.lag >> index & 1 and self.effective(region.page, version):
                sure |= 1 << index
        return sure

    def _copy(self, piece: Piece) -> None:
        """Copy from a clean replica to piece.leg."""
        ready = [i for i in self.inside() if not piece.region.lag >> i & 1]
        if not ready or self.legs[piece.leg].state is not LegState.IN:
            piece.failed = True
            self.finish(piece)
            return

        def copied(effect: Effect) -> None:
            if effect.error:
                piece.failed = True
                self.settle(effect)
            self.finish(piece)

        def fetched(effect: Effect) -> None:
            if effect.error or self.legs[piece.leg].state is not LegState.IN:
                copied(effect)
            else:
                at = self.shape.start + piece.start
                self.write(piece.leg, at, effect.result, "copy").then = copied

        self.turn += 1
        source = ready[self.turn % len(ready)]
        self.read_data(source, piece.start, piece.end - piece.start).then = fetched

    # ---- the map ----

    def _open(self, region: Region) -> None:
        region.open = self.stamp + 1  # before the page is written
        self.change(region.page)
        self.opens[region.index] = region
        self._close_some()

    def _close_some(self) -> None:
        for region in list(self.opens.values()):
            if len(self.opens) <= self.most_open:
                return
            if not (region.active or region.waiting or region.advancing):
                self.close_region(region)

    def close_region(self, region: Region) -> None:
        """Mark a region without outstanding writes as closed: its replicas are equal."""
        del self.opens[region.index]
        region.open = 0
        self.change(region.page)

    def mark(self, region: Region, index: int) -> None:
        """A replica may lack writes that will be acknowledged."""
        if not region.lag >> index & 1:
            region.lag |= 1 << index
            self.lagging[region.index] = region
            region.since[index] = self.change(region.page)

    def change(self, page: Page) -> int:
        """Write a page whose entries have changed; its version."""
        self.stamp += 1
        page.version = self.stamp
        page.sealed = 0
        for index in self.inside():
            self.store(page, index)
        return page.version

    def store(self, page: Page, index: int) -> None:
        """Write the newest version of a page to a replica, one write at a time."""
        bit = 1 << index
        if page.writing & bit or page.durable[index] >= page.version:
            return
        page.writing |= bit
        version = page.version

        def ended(effect: Effect) -> None:
            if effect.error:
                self.settle(effect)
                return
            page.writing &= ~bit
            page.durable[index] = version
            self.store(page, index)
            for region in [r for r in page.regions.values() if r.active or r.waiting or r.idle]:
                for piece in [p for p in region.active if p.what is What.WRITE and not p.acked]:
                    self.evaluate(piece)
                self.advance(region)
            self.work.open()  # close() waits for the map

        at = form.START + page.index * self.shape.block
        self.write(index, at, self.image(page).encode(self.shape), "map").then = ended

    # ---- replicas ----

    def lose(self, index: int, error: Exception) -> None:
        """A replica is lost: go on without it."""
        leg = self.legs[index]
        if leg.state is LegState.OUT:
            return
        leg.state, leg.why = LegState.OUT, str(error)
        leg.error = error
        leg.generation += 1
        for page in self.pages.values():
            page.writing &= ~(1 << index)
        self.watch(index, leg.why)
        if isinstance(error, Fenced) and self.opened:
            self.depose()
            return
        for region in list(self.regions()):
            for piece in [p for p in region.active if p.what is What.WRITE]:
                self.evaluate(piece)
        self.work.open()

    def depose(self) -> None:
        """A different writer has taken over: nothing is acknowledged from now on."""
        self.deposed = True
        ops, self.ops = self.ops, {}
        for op in ops:
            op.end(error=self.refusal())
        self.work.open()

    def tick(self, now: float) -> None:
        """Tell the time, in seconds: for what waits for a slow replica, and regions not in use."""
        self.now = now
        for region in list(self.opens.values()):
            for piece in [p for p in region.active if p.what is What.WRITE and not p.acked]:
                self.evaluate(piece)
        self.work.open()
