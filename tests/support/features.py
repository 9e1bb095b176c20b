#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The README's table of features: ours as the last runs of the tests showed them, and others'.

``features.toml`` has a row for each.  A test that shows one says so by
``@pytest.mark.feature("NAME")``; ``outcomes`` keeps how it went.  ``./dev features`` runs this.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import outcomes
from support.outcomes import Outcome

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = ROOT / "tests" / "features.toml"
BEGIN = "<!-- features: written by ./dev features -->"
END = "<!-- features end -->"
NOT_RUN = "not run"
WORDS = ("yes", "no", "partly")
"""The first word of a cell, of others' columns, and of ours if no test shows the feature."""


@dataclass(frozen=True)
class Feature:
    """A row."""

    name: str
    """The name used by markers."""
    group: str
    words: str
    """The description in the README."""
    section: str
    """Its section in a specification; empty if it is not part of one."""
    nvmet: str
    nvmet_source: str
    """The place in the registry's version of Linux that shows this."""
    spdk: str
    spdk_source: str
    ours: str = ""
    """The entry in place of tests: why there are no tests."""
    but: str = ""
    """The parts that no test shows."""

    def __post_init__(self) -> None:
        for cell in (self.nvmet, self.spdk, *([self.ours] if self.ours else [])):
            if cell.partition(":")[0] not in WORDS:
                raise ValueError(f"{self.name}: {cell!r} begins with none of {', '.join(WORDS)}")
        if not self.nvmet_source or not self.spdk_source:
            raise ValueError(f"{self.name}: it does not say where the others were looked at")


@dataclass(frozen=True)
class Registry:
    """``features.toml``."""

    nvmet: str
    """The version of Linux whose source was read."""
    spdk: str
    features: tuple[Feature, ...]

    def __getitem__(self, name: str) -> Feature:
        return next(one for one in self.features if one.name == name)

    @property
    def names(self) -> set[str]:
        """The names that a marker may have."""
        return {one.name for one in self.features}


def registry(file: Path = REGISTRY) -> Registry:
    """Read the rows; ValueError or TypeError if the file is invalid."""
    said = tomllib.loads(file.read_text())
    found = [
        Feature(name=name, group=group, **row)
        for group, rows in said["features"].items()
        for name, row in rows.items()
    ]
    if twice := [name for name, times in Counter(f.name for f in found).items() if times > 1]:
        raise ValueError(f"{file}: there more than once: {', '.join(twice)}")
    return Registry(said["nvmet"], said["spdk"], tuple(found))


def marked(folder: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Return which test files mark which features, without running or importing any of them."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("test_*.py")):
        for name in _marks(ast.parse(file.read_text())):
            found.setdefault(name, []).append(str(file.relative_to(folder)))
    return found


def _marks(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "feature"
            and ast.unparse(node.func.value) == "pytest.mark"
        ):
            yield from (str(ast.literal_eval(argument)) for argument in node.args)


# ---- the table ----------------------------------------------------------------------------------


def ours(feature: Feature, found: Iterable[Outcome]) -> str:
    """Return our column's entry: the passed tests, and those of them with Linux as the peer."""
    if feature.ours:
        return feature.ours
    run = [one for one in found if feature.name in one.features]
    failed = sum(one.outcome == "failed" for one in run)
    if failed or not run:
        return f"{failed} of {len(run)} FAILED" if failed else NOT_RUN
    peers = Counter(one.peer for one in run if one.peer)
    said = "".join(f"; {peer}: {count}" for peer, count in sorted(peers.items(), reverse=True))
    return f"yes ({len(run)}{said})" + (f", {feature.but}" if feature.but else "")


def table(known: Registry, found: Sequence[Outcome]) -> str:
    """Return the rows, in Markdown."""
    rows: list[tuple[str, ...]] = [
        ("feature", "ours", f"nvmet, {known.nvmet}", f"SPDK {known.spdk}"),
        ("---",) * 4,
    ]
    group = ""
    for feature in known.features:
        if feature.group != group:
            group = feature.group
            rows.append((f"**{group}**", "", "", ""))
        rows.append((feature.words, ours(feature, found), feature.nvmet, feature.spdk))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def rewrite(readme: str, known: Registry, found: Sequence[Outcome]) -> str:
    """Return a README with an updated table; ValueError if it has no place for one."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"it has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table(known, found)}\n{END}{after}"


def main() -> int:
    """Rewrite README.md; return the exit status."""
    readme = ROOT / "README.md"
    found = outcomes.read()
    if not found:
        print(f"features: there is no {outcomes.FILE}: run ./dev test", file=sys.stderr)
        return 1
    try:
        known = registry()
        readme.write_text(rewrite(readme.read_text(), known, found))
    except (OSError, ValueError, TypeError) as error:
        print(f"features: {readme}: {error}", file=sys.stderr)
        return 1
    silent = [one.name for one in known.features if NOT_RUN in ours(one, found)]
    print(f"{readme}: {len(found)} results of {len(known.features)} features")
    if silent:
        print(f"features: no result of {', '.join(silent)}: run their tests", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
