# SPDX-License-Identifier: BSD-3-Clause
"""The README's table of peers: complete, and with nothing that no run of the lab has shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab import peers, results
from lab.cells import MATRIX
from lab.prepare import ROOT, SERIES
from lab.results import Outcome
from support.outcomes import Collected

README = ROOT / "README.md"


def rows(readme: str) -> list[list[str]]:
    """The cells of the table."""
    assert readme.count(peers.BEGIN) == readme.count(peers.END) == 1
    text = readme.partition(peers.BEGIN)[2].partition(peers.END)[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n")[2:-2]
    ]


def outcome(test: str, how: str, *, kernel: str = "6.12", date: str = "2026-11-21") -> Outcome:
    cell = MATRIX[0]
    release = f"{kernel}.1-amd64"
    return Outcome(kernel, cell.target, cell.host, cell.device, test, how, release, date)


def test_the_readme_has_a_row_for_every_cell() -> None:
    head, rule, *body = rows(README.read_text())
    assert head[:3] == ["target", "host", "device"]
    for name, series in zip(head[-len(SERIES) :], SERIES, strict=True):
        assert name.startswith(f"Linux {series}")
    assert 0 <= len(head) - 3 - len(SERIES) <= 1  # the newest kernel
    assert set(rule) == {"---"}
    assert [tuple(row[:3]) for row in body] == [peers.names(cell) for cell in MATRIX]
    for row in body:
        assert len(row) == len(head)
        assert all(peers.WORD.fullmatch(word) for word in row[3:]), row


def test_words() -> None:
    passed, failed = outcome("test_a", "passed"), outcome("test_b", "failed")
    skipped = outcome("test_c", "skipped")
    words = [
        peers.word(MATRIX[0], "6.12", found)
        for found in ([], [skipped], [passed, skipped], [passed, failed])
    ]
    assert words == ["not run", "not run", "all 1", "1 of 2 FAILED"]
    assert peers.word(MATRIX[0], "6.1", [passed]) == "not run"
    assert peers.word(MATRIX[1], "6.12", [passed]) == "not run"


def test_the_newest_kernel_has_a_column_if_it_has_results() -> None:
    old, new = outcome("test_a", "passed"), outcome("test_a", "passed", kernel="7.10")
    assert peers.columns([old]) == SERIES
    assert peers.columns([outcome("test_a", "passed", kernel="7.3"), new]) == ("7.10", *SERIES)
    head, _, first, *_ = rows(peers.rewrite(f"{peers.BEGIN}\n{peers.END}\n", [old, new]))
    assert head[3:] == ["Linux 7.10.1-amd64", "Linux 6.12.1-amd64", "Linux 6.1"]
    assert first[3:] == ["all 1", "all 1", "not run"]


def test_rewriting_changes_the_table_alone() -> None:
    before = f"# A\n\n{peers.BEGIN}\nold\n{peers.END}\n\nmore\n"
    after = peers.rewrite(before, [outcome("test_a", "passed")])
    assert after.startswith("# A\n\n")
    assert after.endswith(f"{peers.END}\n\nmore\n")
    head, _, first, *_ = rows(after)
    assert head[3:] == ["Linux 6.12.1-amd64", "Linux 6.1"]
    assert first[3:] == ["all 1", "not run"]
    assert peers.rewrite(after, [outcome("test_a", "passed")]) == after
    with pytest.raises(ValueError, match="no lines"):
        peers.rewrite("# A\n", [])


def test_results_are_merged(tmp_path: Path) -> None:
    file = tmp_path / "lab" / "results.json"
    nothing = Collected(frozenset(), frozenset())
    assert results.read(file) == []
    results.merge([outcome("test_a", "failed"), outcome("test_b", "passed")], nothing, file)
    results.merge([outcome("test_a", "passed", date="2026-11-22")], nothing, file)
    found = {one.test: (one.outcome, one.date) for one in results.read(file)}
    assert found == {"test_a": ("passed", "2026-11-22"), "test_b": ("passed", "2026-11-21")}
    file.write_text("[{")
    assert results.read(file) == []


def test_results_of_tests_that_went_are_dropped(tmp_path: Path) -> None:
    """A run that looked for tests drops missing ones, on every kernel, whichever one it ran on."""
    file = tmp_path / "results.json"
    here, there = "tests/lab/test_kernel_host.py", "tests/lab/test_our_host.py"
    first = [
        replace(outcome("test_a", "passed"), file=here),
        replace(outcome("test_a", "passed", kernel="6.1"), file=here),
        replace(outcome("test_b", "passed", kernel="6.1"), file=here),
        replace(outcome("test_c", "passed"), file=there),
        replace(outcome("test_d", "passed"), file="tests/lab/test_that_was_removed.py"),
        outcome("test_e", "passed"),
    ]
    nothing = Collected(frozenset(), frozenset())

    def left(names: str, files: frozenset[str]) -> list[str]:
        collected = frozenset(results.name(MATRIX[0], name) for name in names.split())
        results.merge([], Collected(collected, files), file)
        return sorted({one.test for one in results.read(file)})

    results.merge(first, nothing, file)
    assert left("test_a", frozenset()) == ["test_a", "test_b", "test_c", "test_e"]
    assert left("test_a", frozenset({here})) == ["test_a", "test_c", "test_e"]
    assert {one.kernel for one in results.read(file) if one.test == "test_a"} == {"6.12", "6.1"}
    assert left("test_a test_c", results.FILES) == ["test_a", "test_c"]
