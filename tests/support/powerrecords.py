# SPDX-License-Identifier: BSD-3-Clause
"""Records that describe themselves, a journal of what was written, and the check after a crash.

A worker writes one record after the other to bytes of its own.  The journal has a line before each
write, and one after its acknowledgement, so that it is complete wherever the writer is killed.
After the crash every acknowledged record must be there, the one that was under way may be there in
part, and every other byte must be what it was before.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

BLOCK = 4096
AREA = 256 << 10
"""Bytes that belong to a worker."""
_HEAD = 24
"""Bytes at the start of each block of a record, which name it."""


class Lost(AssertionError):
    """Memory lacks acknowledged data."""


def content(tag: str, length: int) -> bytes:
    """Return the record of a tag: each block names it, and has bytes that follow from its name."""
    parts = []
    for number, at in enumerate(range(0, length, BLOCK)):
        name = f"{tag}#{number} "
        size = min(BLOCK, length - at)
        parts.append((name.encode().ljust(_HEAD) + random.Random(name).randbytes(size))[:size])
    return b"".join(parts)


@dataclass(slots=True)
class Write:
    """A write of a record."""

    worker: int
    tag: str
    offset: int
    length: int
    blocks: bool
    """Whether it is written whole or not at all, block by block."""
    acknowledged: bool = False

    @property
    def data(self) -> bytes:
        """The record."""
        return content(self.tag, self.length)


class Journal:
    """A file to which writers append: what reached it survives them."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def issue(self, write: Write) -> None:
        """Note a write, before it is sent."""
        kind = "blocks" if write.blocks else "bytes"
        self._line(f"issue {write.worker} {write.tag} {write.offset} {write.length} {kind}")

    def acknowledge(self, worker: int) -> None:
        """Note that a worker's latest write was acknowledged."""
        self._line(f"acknowledge {worker}")

    def _line(self, text: str) -> None:
        os.write(self._fd, text.encode() + b"\n")


class History:
    """The writes in a journal."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self.writes: list[Write] = []
        self._latest: dict[int, Write] = {}
        for line in lines:
            self._take(line.split())

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read a file, of which the last line may be incomplete."""
        if not path.exists():
            return cls()
        return cls(path.read_text().rpartition("\n")[0].splitlines())

    def _take(self, words: list[str]) -> None:
        worker = int(words[1])
        if words[0] == "acknowledge":
            self._latest[worker].acknowledged = True
            return
        before = self._latest.get(worker)
        assert before is None or before.acknowledged, "a worker has one write under way"
        tag, offset, length, kind = words[2:]
        write = Write(worker, tag, int(offset), int(length), kind == "blocks")
        self.writes.append(write)
        self._latest[worker] = write

    @property
    def acknowledged(self) -> Counter[int]:
        """The number of acknowledged writes of each worker."""
        return Counter(write.worker for write in self.writes if write.acknowledged)

    @property
    def under_way(self) -> list[Write]:
        """The writes that were not acknowledged."""
        return [write for write in self.writes if not write.acknowledged]


def check(base: bytes, history: History, found: bytes) -> Counter[str]:
    """Raise Lost unless memory that had base has, after the writes and the crash, what it must.

    Returns: What became of the writes under way: "absent", "in part" and "whole".
    """
    assert len(base) == len(found)
    expected = bytearray(base)
    for write in history.writes:
        if write.acknowledged:
            expected[write.offset : write.offset + write.length] = write.data
    fates: Counter[str] = Counter()
    for write in history.under_way:
        part = slice(write.offset, write.offset + write.length)
        fates[_fate(write, bytes(expected[part]), found[part])] += 1
        expected[part] = found[part]
    if found != expected:
        at = next(i for i in range(len(found)) if found[i] != expected[i])
        raise Lost(_wrong(at, bytes(expected), found, history))
    return fates


def _fate(write: Write, old: bytes, found: bytes) -> str:
    """Return the fate of an outstanding write; raise Lost if memory has data that no write
    wrote.
    """
    new = write.data
    if found in (old, new):
        return "whole" if found == new else "absent"
    size = BLOCK if write.blocks else 1
    for at in range(0, write.length, size):
        part = slice(at, at + size)
        if found[part] not in (old[part], new[part]):
            what = "torn" if write.blocks else "not of the old or the new record"
            raise Lost(
                f"byte {write.offset + at} on is {what}, in {write}, which was under way: it has "
                f"{found[part][:_HEAD]!r} for {new[part][:_HEAD]!r} or {old[part][:_HEAD]!r}"
            )
    return "in part"


def _wrong(at: int, expected: bytes, found: bytes, history: History) -> str:
    covering = [
        write
        for write in history.writes
        if write.acknowledged and write.offset <= at < write.offset + write.length
    ]
    start = at // BLOCK * BLOCK
    block = slice(start, start + BLOCK)
    wrong = sum(a != b for a, b in zip(expected[block], found[block], strict=True))
    last = f"the last acknowledged write there is {covering[-1]}" if covering else "nobody wrote it"
    return (
        f"byte {at} is wrong, and {wrong} bytes of its block: {last}; "
        f"it has {found[at : at + _HEAD]!r} for {expected[at : at + _HEAD]!r}"
    )
