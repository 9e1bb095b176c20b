# SPDX-License-Identifier: BSD-3-Clause
"""State of a namespace other than its data, without controllers, files or time.

The state is the write protection (Base 2.0, 8.12) and the blocks marked by Write Uncorrectable (NVM
1.0, 3.2.7).  It is immutable: nothing has changed if the next state cannot be stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypedDict

from nvmf.check import checked
from nvmf.json import JSON
from nvmf.spec.features import WriteProtection
from nvmf.spec.status import Status, StatusError
from nvmf.target.lasting.state import seal, unseal

Range: TypeAlias = tuple[int, int]
"""First logical block, and number of blocks."""

_FORMAT = 1
_FIXED = (WriteProtection.UNTIL_POWER_CYCLE, WriteProtection.PERMANENT)


@dataclass(frozen=True, slots=True)
class Lasting:
    """A namespace's state."""

    protection: WriteProtection = WriteProtection.NONE
    invalid: tuple[Range, ...] = ()
    """Blocks that cannot be read until written: sorted, neither overlapping nor adjacent."""

    def check(self, wanted: WriteProtection) -> None:
        """Raise Feature Not Changeable if the present protection cannot be changed to wanted."""
        if self.protection in _FIXED and wanted is not self.protection:
            until = (
                "until the target is restarted"
                if self.protection is WriteProtection.UNTIL_POWER_CYCLE
                else "permanently"
            )
            raise StatusError(
                Status.FEATURE_NOT_CHANGEABLE, f"the namespace is write protected {until}"
            )

    def outliving(self, *, data: bool) -> Lasting:
        """Return the part that persists across restarts.  data: whether the data does."""
        kept = self if data else replace(self, invalid=())
        if self.protection is WriteProtection.UNTIL_POWER_CYCLE:
            return replace(kept, protection=WriteProtection.NONE)
        return kept


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return ranges sorted, and those that overlap or are adjacent as one."""
    apart: list[Range] = []
    for first, count in sorted(ranges):
        lba, blocks = apart[-1] if apart else (0, 0)
        if blocks and first <= lba + blocks:
            apart[-1] = (lba, max(blocks, first + count - lba))
        else:
            apart.append((first, count))
    return tuple(apart)


def with_range(ranges: tuple[Range, ...], lba: int, blocks: int) -> tuple[Range, ...]:
    """Return these ranges with one added."""
    start, end = lba, lba + blocks
    apart = []
    for first, count in ranges:
        if first + count < start or first > end:
            apart.append((first, count))
        else:
            start, end = min(start, first), max(end, first + count)
    return tuple(sorted([*apart, (start, end - start)]))


def without_ranges(ranges: Iterable[Range], removed: Iterable[Range]) -> tuple[Range, ...]:
    """Return these sorted ranges with others, in any order, removed; in one pass."""
    holes = deque(sorted(one for one in removed if one[1]))
    left = []
    for first, count in ranges:
        start, end = first, first + count
        while holes and holes[0][0] < end:
            lba, blocks = holes[0]
            if start < lba:
                left.append((start, lba - start))
            start = max(start, lba + blocks)
            if lba + blocks > end:
                break  # it may concern the next range, too
            holes.popleft()
        if start < end:
            left.append((start, end - start))
    return tuple(left)


def encode(lasting: Lasting) -> bytes:
    """Return the content of the namespace's file."""
    return seal(
        "namespace",
        {
            "format": _FORMAT,
            "write_protection": int(lasting.protection),
            "invalid": [list(one) for one in lasting.invalid],
        },
    )


def load(path: Path) -> Lasting | None:
    """Load a file; return None if there is no file; raise DamagedState if it is invalid."""
    return unseal(
        path,
        "namespace",
        _decode,
        "the write protection and the invalid blocks of the namespace are unknown. Restore a copy, "
        "or remove the file, which clears both",
    )


class _Body(TypedDict):
    """The content of a file."""

    format: int
    write_protection: int
    invalid: list[list[int]]


def _decode(value: JSON) -> Lasting:
    body = checked(_Body, value, name="namespace")
    if body["format"] != _FORMAT:
        raise ValueError(f"its format is {body['format']}, not {_FORMAT}")
    ranges: list[Range] = []
    for lba, blocks in body["invalid"]:
        if lba < 0 or blocks <= 0:
            raise ValueError(f"[{lba}, {blocks}] is not a range of blocks")
        ranges.append((lba, blocks))
    return Lasting(WriteProtection(body["write_protection"]), merged(ranges))
