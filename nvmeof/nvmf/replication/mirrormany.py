# SPDX-License-Identifier: BSD-3-Clause
"""Many writes of one length to a Mirror with one call: pieces of one region, with several places.

A piece covers its bytes from the first write to the end of the last one, so that the rules of
single writes hold for it as they are: whatever overlaps waits, and it is acknowledged as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nvmf.replication.machine import Op
from nvmf.replication.mirrorcore import MirrorCore
from nvmf.replication.mirrorparts import Piece, What

MOST_BYTES = 256 << 10
"""Bytes of the writes of one piece."""
AT_ONCE = 64
"""Pieces under way."""
BYTES_AT_ONCE = 2 << 20
"""Bytes of these: what is on its way to a replica should arrive within a mirror's patience."""


class Many:
    """The writes of one call."""

    def __init__(
        self, core: MirrorCore, op: Op, offsets: Iterable[int], data: bytes, length: int
    ) -> None:
        """Prepare them; op ends with the last one.

        Raises:
            ValueError: They are not whole blocks of the mirror, or overlap.
        """
        self._core, self._op, self._data, self._length = core, op, memoryview(data), length
        asked = list(offsets)
        block, size = core.shape.block, core.shape.size
        if length <= 0 or length % block or len(data) != len(asked) * length:
            raise ValueError(
                f"{len(data)} bytes for {len(asked)} writes of {length} bytes; blocks have {block}"
            )
        order = sorted(range(len(asked)), key=asked.__getitem__)
        self._sorted = order == list(range(len(asked)))
        self._order, self._places = order, [asked[i] for i in order]
        if self._places and not 0 <= self._places[0] <= self._places[-1] <= size - length:
            raise ValueError(f"a write of {length} bytes is not in the {size} bytes")
        before = -length
        for at in self._places:
            if at % block:
                raise ValueError(f"offset {at} is not a multiple of {block}")
            if at - before < length:
                raise ValueError(f"two writes overlap at {at}: write them one after the other")
            before = at
        self._pieces = self._cut()
        self.begun: list[Piece] = []
        """The pieces under way."""
        self._bytes_under_way = 0
        self._feeding = self._all = False

    def begin(self) -> None:
        """Ask for as many pieces as may be under way."""
        if self._feeding:
            return
        self._feeding = True
        while self._room() and not self._all and not self._op.done:
            piece = next(self._pieces, None)
            if piece is None:
                self._all = True
                break
            self.begun.append(piece)
            self._bytes_under_way += len(piece.data)
            piece.region.waiting.append(piece)
            self._core.advance(piece.region)
        self._feeding = False
        if self._all and not self.begun:
            self._core.ops.pop(self._op, None)
            self._op.end()

    def _room(self) -> bool:
        return len(self.begun) < AT_ONCE and self._bytes_under_way < BYTES_AT_ONCE

    def _done(self, piece: Piece) -> None:
        self.begun.remove(piece)
        self._bytes_under_way -= len(piece.data)
        self.begin()

    def _cut(self) -> Iterator[Piece]:
        places, length, wide = self._places, self._length, self._core.shape.region
        first = 0
        while first < len(places):
            start = places[first]
            region_end = (start // wide + 1) * wide
            most = first + max(MOST_BYTES // length, 1)
            last = first
            while last < len(places) and last < most and places[last] + length <= region_end:
                last += 1
            if last == first:  # it crosses the end of the region
                yield from self._parts(first)
                first += 1
                continue
            end = places[last - 1] + length
            yield self._piece(start, end, self._bytes(first, last), tuple(places[first:last]))
            first = last

    def _parts(self, index: int) -> Iterator[Piece]:
        at, wide = self._places[index], self._core.shape.region
        data, end = self._bytes(index, index + 1), at + self._length
        while at < end:
            stop = min(end, (at // wide + 1) * wide)
            yield self._piece(at, stop, data[: stop - at], ())
            data, at = data[stop - at :], stop

    def _piece(self, start: int, end: int, data: bytes, places: tuple[int, ...]) -> Piece:
        region = self._core.region(start // self._core.shape.region)
        return Piece(What.WRITE, region, start, end, self._done, data, places)

    def _bytes(self, first: int, last: int) -> bytes:
        data, length = self._data, self._length
        if self._sorted:
            return bytes(data[first * length : last * length])
        return b"".join(data[i * length : (i + 1) * length] for i in self._order[first:last])


def submit_many(core: MirrorCore, op: Op, offsets: Iterable[int], data: bytes, length: int) -> Op:
    """Write length bytes of data at each offset; op ends when all of them are acknowledged."""
    if core.deposed or not core.opened:
        op.end(error=core.refusal())
        return op
    many = Many(core, op, offsets, data, length)
    core.ops[op] = many.begun
    many.begin()
    return op
