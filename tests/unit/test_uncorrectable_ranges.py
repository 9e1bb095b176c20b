# SPDX-License-Identifier: BSD-3-Clause
"""The ranges of blocks that Write Uncorrectable has marked: added, and removed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from nvmf.target.lasting.lasting import Range, merged, with_range, without_ranges


def test_ranges() -> None:
    """Compared with a set of blocks."""
    chance = random.Random(11)
    for _ in range(200):
        ranges: tuple[Range, ...] = ()
        blocks: set[int] = set()
        for _ in range(30):
            lba, count = chance.randrange(60), chance.randrange(1, 12)
            put = chance.random() < 0.6
            chosen = set(range(lba, lba + count))
            if put:
                ranges = with_range(ranges, lba, count)
            else:
                others = [(chance.randrange(60), chance.randrange(4)) for _ in range(3)]
                ranges = without_ranges(ranges, [(lba, count), *others])
                chosen.update(lba + i for lba, count in others for i in range(count))
            blocks = blocks | chosen if put else blocks - chosen
            assert blocks == {lba + i for lba, count in ranges for i in range(count)}
            assert list(ranges) == sorted(ranges)
            assert merged(chance.sample(ranges, len(ranges))) == ranges
            assert all(a + count < b for (a, count), (b, _) in itertools.pairwise(ranges))
            assert all(count > 0 for _, count in ranges)


def test_ranges_are_removed_in_one_pass() -> None:
    """A deallocation has up to 256 ranges, and a namespace thousands of marks: each with each would
    take a second, during which the target serves no host.
    """
    passes = 0

    class Counted(tuple[Range, ...]):
        def __iter__(self) -> Iterator[Range]:
            nonlocal passes
            passes += 1
            return super().__iter__()

    marks = Counted((8 * number, 4) for number in range(100))
    holes = [(16 * number + 1, 1) for number in reversed(range(50))]
    left = without_ranges(marks, holes)
    assert passes == 1
    assert left[:4] == ((0, 1), (2, 2), (8, 4), (16, 1))
    assert len(left) == 150
