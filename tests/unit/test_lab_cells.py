# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the lab that have the short part of the tests alone, or none."""

from __future__ import annotations

import pytest

from lab.cells import KERNEL_HOST, MATRIX, OUR_HOST, Cell


def pairs(cells: list[Cell]) -> set[tuple[str, str, str]]:
    """Return the ends and the device of those that have an end of ours."""
    return {(cell.target, cell.host, cell.kind) for cell in cells if cell.ends != {"kernel"}}


@pytest.mark.parametrize("cell", MATRIX, ids=str)
def test_a_later_kernel_leaves_out_no_less(cell: Cell) -> None:
    assert cell.brief(later=True) or not cell.brief(later=False)
    assert cell.brief(later=True) or not cell.left_out(later=True)
    assert not cell.left_out(later=False)


@pytest.mark.parametrize("cells", [KERNEL_HOST, OUR_HOST], ids=["kernel's host", "our host"])
def test_each_pair_with_an_end_of_ours_runs_all_tests_on_each_device(
    cells: tuple[Cell, ...],
) -> None:
    """So does the control on siw."""
    full = [cell for cell in cells if not cell.brief(later=False)]
    assert pairs(full) == pairs(list(cells))
    assert Cell("kernel", "siw") in full or cells is OUR_HOST


@pytest.mark.parametrize("cells", [KERNEL_HOST, OUR_HOST], ids=["kernel's host", "our host"])
def test_a_later_kernel_meets_each_end_of_ours_on_each_device(cells: tuple[Cell, ...]) -> None:
    """With its own end, and one of them in all tests."""
    met = [cell for cell in cells if not cell.left_out(later=True)]
    assert pairs(met) == {one for one in pairs(list(cells)) if "kernel" in one}
    assert [str(cell) for cell in met if not cell.brief(later=True)] in (
        ["ours_outside-kernel-siw"],
        ["kernel-ours_outside-siw"],
    )
