# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the lab that have the short part of the tests alone."""

from __future__ import annotations

import pytest

from lab.cells import KERNEL_HOST, MATRIX, OUR_HOST, Cell


@pytest.mark.parametrize("cell", MATRIX, ids=str)
def test_what_is_brief_on_the_first_kernel_is_brief_on_later_ones(cell: Cell) -> None:
    assert cell.brief(later=True) or not cell.brief(later=False)


@pytest.mark.parametrize("cells", [KERNEL_HOST, OUR_HOST], ids=["kernel's host", "our host"])
@pytest.mark.parametrize("later", [False, True])
def test_each_pair_with_an_end_of_ours_runs_all_tests_on_each_device(
    cells: tuple[Cell, ...], later: bool
) -> None:
    """For each end of ours, some cell on each device runs all tests, on every kernel."""

    def of(some: list[Cell]) -> set[tuple[str, str, str]]:
        ours = (cell for cell in some if (cell.target, cell.host) != ("kernel", "kernel"))
        return {(cell.target, cell.host, cell.kind) for cell in ours}

    assert of([cell for cell in cells if not cell.brief(later=later)]) == of(list(cells))


def test_the_first_kernel_shows_the_rest() -> None:
    """The first kernel runs the tests that only a later one leaves out."""
    left = [cell for cell in MATRIX if cell.brief(later=True) and not cell.brief(later=False)]
    assert {str(cell) for cell in left} == {"kernel-kernel-siw", "ours_outside-kernel-siw-ipv6"}
