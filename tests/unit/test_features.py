# SPDX-License-Identifier: BSD-3-Clause
"""The README's table of features: every row is shown by tests, or states why not."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cells import Cell
from support import features, outcomes
from support.features import ROOT, Feature, Registry
from support.outcomes import Collected, Outcome, Recorder

README = ROOT / "README.md"
WORD = re.compile(r"yes \(\d+(; Linux [\d.]+: \d+)*\)(, .+)?|\d+ of \d+ FAILED|not run")
"""The form of our column for a feature with tests."""
KNOWN = Registry(
    "Linux 6.12",
    "25.09",
    (
        Feature("one", "First", "The one", "", "yes", "one.c", "no", "one.c"),
        Feature("two", "First", "The two", "", "no", "two.c", "no", "two.c", but="not all"),
        Feature("tcp", "Second", "TCP", "", "yes", "tcp.c", "yes", "tcp.c", ours="no: later"),
    ),
)


def outcome(test: str, *names: str, how: str = "passed", kernel: str = "") -> Outcome:
    peer = f"Linux {kernel}" if kernel else ""
    return Outcome(test, kernel, list(names), how, peer, "2026-11-21")


def rows(readme: str) -> list[list[str]]:
    """The cells of the table, without its heading."""
    assert readme.count(features.BEGIN) == readme.count(features.END) == 1
    text = readme.partition(features.BEGIN)[2].partition(features.END)[0]
    return [
        [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        for line in text.split("\n")
        if line.startswith("|") and not line.startswith("| ---")
    ]


def test_every_row_has_its_tests_or_is_a_no() -> None:
    """pytest refuses a marker that is not in the registry; a row without a test is found here."""
    known, marked = features.registry(), features.marked()
    assert set(marked) <= known.names
    shown = {one.name for one in known.features if not one.ours}
    assert shown - set(marked) == set(), "no test has their marker"
    unexpected = {name: marked[name] for name in set(marked) - shown}
    assert unexpected == {}, "they have tests: remove 'ours' from their rows"


def test_the_readme_has_every_row() -> None:
    """./dev features was run after the last change to the registry."""
    known = features.registry()
    head, *body = rows(README.read_text())
    assert head == ["feature", "ours", f"nvmet, {known.nvmet}", f"SPDK {known.spdk}"]
    found = [row for row in body if not row[0].startswith("**")]
    assert [(row[0], *row[2:]) for row in found] == [
        (one.words, one.nvmet, one.spdk) for one in known.features
    ]
    for row, one in zip(found, known.features, strict=True):
        assert row[1] == one.ours if one.ours else WORD.fullmatch(row[1]), row
    assert [row[0].strip("*") for row in body if row[0].startswith("**")] == list(
        dict.fromkeys(one.group for one in known.features)
    )


def test_words() -> None:
    one, two, tcp = KNOWN.features
    passed = [
        outcome("a", "one"),
        outcome("b", "one", "two"),
        outcome("c", "one", kernel="6.1"),
        outcome("c", "one", kernel="6.12"),
    ]
    assert features.ours(one, passed) == "yes (4; Linux 6.12: 1; Linux 6.1: 1)"
    assert features.ours(two, passed) == "yes (1), not all"
    assert features.ours(tcp, passed) == "no: later"
    assert features.ours(one, []) == "not run"
    assert features.ours(one, [*passed, outcome("d", "one", how="failed")]) == "1 of 5 FAILED"
    for said in (features.ours(one, passed), features.ours(two, passed)):
        assert WORD.fullmatch(said), said


def test_rewriting_changes_the_table_alone() -> None:
    before = f"# A\n\n{features.BEGIN}\nold\n{features.END}\n\nmore\n"
    after = features.rewrite(before, KNOWN, [outcome("a", "one")])
    assert after.startswith("# A\n\n")
    assert after.endswith(f"{features.END}\n\nmore\n")
    assert rows(after) == [
        ["feature", "ours", "nvmet, Linux 6.12", "SPDK 25.09"],
        ["**First**", "", "", ""],
        ["The one", "yes (1)", "yes", "no"],
        ["The two", "not run", "no", "no"],
        ["**Second**", "", "", ""],
        ["TCP", "no: later", "yes", "yes"],
    ]
    assert features.rewrite(after, KNOWN, [outcome("a", "one")]) == after
    with pytest.raises(ValueError, match="no lines"):
        features.rewrite("# A\n", KNOWN, [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[features.A.x]\nnvmet = "maybe"', "begins with none of yes, no, partly"),
        ('[features.A.x]\nnvmet = "yes"\nnvmet_source = ""', "looked at"),
        ('[features.A.x]\n[features.B.x]', "more than once: x"),
    ],
)  # fmt: skip
def test_a_wrong_registry(tmp_path: Path, text: str, says: str) -> None:
    """Each row is complete: the missing fields are filled in with valid ones."""
    right = {
        "words": "X",
        "section": "",
        "nvmet": "yes",
        "nvmet_source": "x.c",
        "spdk": "no",
        "spdk_source": "x.c",
    }
    lines = ['nvmet = "Linux 6.12"', 'spdk = "25.09"']
    for table in text.split("\n["):
        table = table if table.startswith("[") else f"[{table}"
        lines.append(table)
        lines += [f'{key} = "{word}"' for key, word in right.items() if f"{key} =" not in table]
    file = tmp_path / "features.toml"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=says):
        features.registry(file)


def test_outcomes_are_merged_and_forgotten(tmp_path: Path) -> None:
    """A result that a run did not find is removed; one that it did not look for is kept."""
    file = tmp_path / "build" / "features.json"
    here = "tests/unit/test_features.py"
    assert outcomes.read(file) == []
    nothing = Collected(frozenset(), frozenset())
    first = [
        outcome(f"{here}::test_a", "one"),
        outcome(f"{here}::test_b[x]", "one", kernel="6.1"),
        outcome("tests/unit/test_layout.py::test_c", "one"),
        outcome("tests/unit/test_that_was_removed.py::test_d", "one"),
    ]
    outcomes.merge(first, nothing, file)
    assert outcomes.read(file) == sorted(first, key=lambda one: one.key)
    there = Collected(frozenset({f"{here}::test_b[x]"}), frozenset({here}))
    outcomes.merge([outcome(f"{here}::test_b[x]", "two", kernel="6.12")], there, file)
    assert [(one.test, one.kernel, one.features) for one in outcomes.read(file)] == [
        ("tests/unit/test_features.py::test_b[x]", "6.1", ["one"]),
        ("tests/unit/test_features.py::test_b[x]", "6.12", ["two"]),
        ("tests/unit/test_layout.py::test_c", "", ["one"]),
    ]
    file.write_text("[{")
    assert outcomes.read(file) == []


class Item:
    """The attributes of a test of the lab that a recorder uses."""

    def __init__(self, nodeid: str, **parameters: object) -> None:
        self.nodeid = nodeid
        self.callspec = SimpleNamespace(params=parameters)


def test_whose_outcome_it_is() -> None:
    """A test is the same one on every kernel; nvmet's own outcomes are not ours."""
    nvmet, ours = Cell("kernel", "siw"), Cell("ours_outside", "siw-ipv6")
    pyverbs = Cell("ours", "rxe", "pyverbs")
    found = []
    for nodeid, parameters in (
        ("f.py::test_a[6.12]", {"kernel_series": "6.12"}),
        ("f.py::test_a[6.1-a-6]", {"kernel_series": "6.1", "x": "a-6"}),
        ("f.py::test_a[x-6.1]", {"x": "x"}),
        (f"f.py::test_a[6.1-{ours}-1]", {"kernel_series": "6.1", "row": ours, "nsid": 1}),
        (f"f.py::test_a[6.1-{nvmet}]", {"kernel_series": "6.1", "row": nvmet}),
        (f"f.py::test_a[6.1-{pyverbs}]", {"kernel_series": "6.1", "row": pyverbs}),
    ):
        item: Any = Item(nodeid, **parameters)
        found.append((*outcomes.identifier(item), outcomes.peer(item)))
    assert found == [
        ("f.py::test_a", "6.12", "Linux 6.12"),
        ("f.py::test_a[a-6]", "6.1", "Linux 6.1"),
        ("f.py::test_a[x-6.1]", "", ""),
        (f"f.py::test_a[{ours}-1]", "6.1", "Linux 6.1"),
        (f"f.py::test_a[{nvmet}]", "6.1", None),
        (f"f.py::test_a[{pyverbs}]", "6.1", ""),
    ]


def test_a_name_that_the_registry_has_not_stops_pytest(request: pytest.FixtureRequest) -> None:
    node, mark = request.node, getattr(pytest.mark, outcomes.MARKER)
    node.add_marker(mark("no-such-feature"))
    try:
        with pytest.raises(pytest.UsageError, match="no-such-feature, which"):
            Recorder({"another"}).pytest_collection_modifyitems(request.config, [node])
    finally:
        node.own_markers.pop()
