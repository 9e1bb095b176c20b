# SPDX-License-Identifier: BSD-3-Clause
"""A third, independent peer: pyverbs in the guest, with our frames and CM messages by hand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab import raw_cases
from lab.cells import RAW_VERBS, Cell, use_device
from lab.guest import Guest
from lab.ours import OursInside
from lab.prepare import ROOT

PYTHON = "/usr/bin/python3"
"""The distribution's Python, which has pyverbs."""


@dataclass(frozen=True)
class Row:
    """A cell whose cases have all run: the error of each, "" if there was none."""

    cell: Cell
    target: OursInside
    cases: dict[str, str]
    output: str


@pytest.fixture(scope="module", params=RAW_VERBS, ids=str)
def row(request: pytest.FixtureRequest, vm: Guest, need_product: None) -> Iterator[Row]:
    cell: Cell = request.param
    use_device(vm, cell.kind)
    target = OursInside(vm, cell.address)
    where = [cell.address, str(target.service), target.nqn, "iwarp" if cell.kind == "siw" else "ib"]
    done = vm.run(
        f"cd {shlex.quote(str(ROOT / 'tests'))} && PYTHONPATH=. exec {PYTHON} -m lab.raw_cases"
        f" {shlex.join(where)}",
        timeout=raw_cases.SECONDS + 60,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    cases = {entry["case"]: entry["why"] for entry in found}
    yield Row(cell, target, cases, done.output + target.log)
    target.close()


NAMES = list(dict.fromkeys(raw_cases.names(iwarp=True) + raw_cases.names(iwarp=False)))


# siw and rxe log requests of a hostile host that they refuse.
@pytest.mark.unclean("siw|rxe|rdma")
@pytest.mark.parametrize("case", NAMES)
def test_case(row: Row, guest: Guest, case: str) -> None:
    if case not in raw_cases.names(iwarp=row.cell.kind == "siw"):
        pytest.skip("the device cannot do that: see raw_cases.IWARP_ONLY and ROCE_ONLY")
    assert case in row.cases, f"it was not reached:\n{row.output}"
    assert not row.cases[case], f"{row.cases[case]}\n{row.target.log}"


def test_the_target_lives_and_says_why(row: Row, guest: Guest) -> None:
    """Every refusal and every end that the host caused is in its log."""
    row.target.wait_no_connections()
    row.target.check()
    log = row.target.log
    refused = len(raw_cases.REJECTS) + (len(raw_cases.SHORT) if row.cell.kind == "siw" else 0)
    assert log.count("connection refused: ") == refused, log
    assert "sent a capsule of 63 bytes" in log
    assert "the peer disconnected" in log
