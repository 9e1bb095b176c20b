# SPDX-License-Identifier: BSD-3-Clause
"""What belongs to a namespace besides its data, without controllers, files or time.

Its write protection (Base 2.0, 8.12) and the blocks that Write Uncorrectable marked (NVM 1.0,
3.2.7).  Both are values: nothing has changed where the next one cannot be made to last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from nvmf.spec.features import WriteProtection
from nvmf.spec.status import Status, StatusError
from nvmf.target.lasting.state import seal, unseal

Range: TypeAlias = tuple[int, int]
"""First logical block, and how many."""

_FORMAT = 1
_FIXED = (WriteProtection.UNTIL_POWER_CYCLE, WriteProtection.PERMANENT)


@dataclass(frozen=True, slots=True)
class Lasting:
    """A namespace's state."""

    protection: WriteProtection = WriteProtection.NONE
    invalid: tuple[Range, ...] = ()
    """Blocks that cannot be read until they are written: sorted, and apart from each other."""

    def check(self, wanted: WriteProtection) -> None:
        """Feature Not Changeable where the protection that there is cannot become another."""
        if self.protection in _FIXED and wanted is not self.protection:
            until = (
                "until the target is started again"
                if self.protection is WriteProtection.UNTIL_POWER_CYCLE
                else "for good"
            )
            raise StatusError(
                Status.FEATURE_NOT_CHANGEABLE, f"the namespace is write protected {until}"
            )

    def outliving(self, *, data: bool) -> Lasting:
        """What of it outlives the target.  data: whether the namespace's data does."""
        kept = self if data else replace(self, invalid=())
        if self.protection is WriteProtection.UNTIL_POWER_CYCLE:
            return replace(kept, protection=WriteProtection.NONE)
        return kept


def with_range(ranges: tuple[Range, ...], lba: int, blocks: int) -> tuple[Range, ...]:
    """These ranges, and one more."""
    start, end = lba, lba + blocks
    apart = []
    for first, count in ranges:
        if first + count < start or first > end:
            apart.append((first, count))
        else:
            start, end = min(start, first), max(end, first + count)
    return tuple(sorted([*apart, (start, end - start)]))


def without_range(ranges: tuple[Range, ...], lba: int, blocks: int) -> tuple[Range, ...]:
    """These ranges, without what lies in another."""
    left = []
    for first, count in ranges:
        for start, end in (
            (first, min(first + count, lba)),
            (max(first, lba + blocks), first + count),
        ):
            if start < end:
                left.append((start, end - start))
    return tuple(left)


def encode(lasting: Lasting) -> bytes:
    """The content of its file."""
    return seal(
        "namespace",
        {
            "format": _FORMAT,
            "write_protection": int(lasting.protection),
            "invalid": [list(one) for one in lasting.invalid],
        },
    )


def load(path: Path) -> Lasting | None:
    """What a file has; None where there is no file; DamagedState where it is another."""
    return unseal(
        path,
        "namespace",
        _decode,
        "whether the namespace is write protected, and which of its blocks are invalid, is not "
        "known. Put back a copy, or remove the file, which ends both",
    )


def _decode(body: Any) -> Lasting:
    if body["format"] != _FORMAT:
        raise ValueError(f"its format is {body['format']}, and {_FORMAT} is known")
    invalid: tuple[Range, ...] = ()
    for lba, blocks in body["invalid"]:
        if not (isinstance(lba, int) and isinstance(blocks, int) and lba >= 0 and blocks > 0):
            raise ValueError(f"[{lba}, {blocks}] is no range of blocks")
        invalid = with_range(invalid, lba, blocks)
    return Lasting(WriteProtection(body["write_protection"]), invalid)
