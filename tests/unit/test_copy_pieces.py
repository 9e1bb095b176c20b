# SPDX-License-Identifier: BSD-3-Clause
"""Copy commands are within the limits of a namespace, each of which may be the smallest."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from nvmf.initiator.base.copying import split_copy
from nvmf.spec.commands import MAX_COPY_RANGES
from nvmf.spec.identify import IdentifyNamespace

RANGES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 300)), max_size=20)


@given(
    mssrl=st.integers(0, 100), mcl=st.integers(0, 300), msrc=st.integers(0, 8), ranges=RANGES
)  # fmt: skip
@example(mssrl=8, mcl=300, msrc=255, ranges=[(100, 300)])
@example(mssrl=100, mcl=7, msrc=255, ranges=[(100, 300)])
@example(mssrl=100, mcl=300, msrc=0, ranges=[(100, 3), (200, 3)])
def test_pieces(mssrl: int, mcl: int, msrc: int, ranges: list[tuple[int, int]]) -> None:
    """Together they are the ranges, one after the other; a limit of 0 is taken for 1."""
    info = IdentifyNamespace(mssrl=mssrl, mcl=mcl, msrc=msrc)
    lba, blocks = 1000, list[int]()
    for piece in split_copy(info, lba, ranges):
        lengths = [count for _, count in piece.ranges]
        assert piece.sdlba == lba + len(blocks)
        assert 1 <= len(lengths) <= min(msrc + 1, MAX_COPY_RANGES)
        assert all(1 <= one <= max(mssrl, 1) for one in lengths)
        assert sum(lengths) <= max(mcl, 1)
        blocks += [first + at for first, count in piece.ranges for at in range(count)]
    assert blocks == [first + at for first, count in ranges for at in range(count)]
