# SPDX-License-Identifier: BSD-3-Clause
"""The last result of each test that shows a feature: ``build/features.json``.

Runs are merged: a test that was not run keeps its result, and one that no longer exists is
removed by the next run that looks into its file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "build" / "features.json"
MARKER = "feature"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test."""

    test: str
    """Its node identifier without the kernel on which it ran."""
    kernel: str
    """The series of the guest's kernel: 6.12; empty for a test that needs no guest."""
    features: list[str]
    outcome: str
    """"passed" or "failed"; a skipped test has no outcome."""
    peer: str
    """The peer: "Linux 6.12" if its host was the peer."""
    date: str
    """Date of the run: 2026-11-21."""

    @property
    def key(self) -> tuple[str, str]:
        """The key by which a later run replaces it."""
        return self.test, self.kernel

    @property
    def file(self) -> str:
        """The file of the test, from the root of the tree."""
        return self.test.partition("::")[0]


def read(file: Path = FILE) -> list[Outcome]:
    """Return the present outcomes; none if there was no run."""
    try:
        return [Outcome(**entry) for entry in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return []


@contextlib.contextmanager
def alone(file: Path) -> Iterator[None]:
    """Lock a file of results against reading and replacing by others.

    Its folder is locked, because a lock file of root, who runs the lab, would block other users.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def replace(file: Path, entries: Iterable[object]) -> None:
    """Replace a file of results as a whole."""
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(list(entries), indent=1) + "\n")
    draft.replace(file)


@dataclass(frozen=True)
class Collected:
    """The tests that a run of pytest found before it selected some of them."""

    tests: frozenset[str]
    """Their identifiers, in the form of the results."""
    files: frozenset[str]
    """The files that it read completely, from the root of the tree."""

    def lacks(self, test: str, file: str) -> bool:
        """Whether the test is known not to exist."""
        return test not in self.tests and (file in self.files or not (ROOT / file).is_file())


def whole_files(config: pytest.Config, items: Iterable[pytest.Item]) -> frozenset[str]:
    """Return the files of which no single tests were requested."""
    named = {str(Path(one.partition("::")[0]).resolve()) for one in config.args if "::" in one}
    files = {item.path for item in items}
    return frozenset(
        one.relative_to(ROOT).as_posix()
        for one in files
        if one.is_relative_to(ROOT) and str(one) not in named
    )


def merge(new: Iterable[Outcome], there: Collected, file: Path = FILE) -> None:
    """Replace outcomes with newer ones, and drop those of tests that no longer exist."""
    with alone(file):
        before = read(file)
        known = {one.key: one for one in before if not there.lacks(one.test, one.file)}
        changed = len(known) < len(before)
        for one in new:
            known[one.key], changed = one, True
        if changed:
            replace(file, (asdict(known[key]) for key in sorted(known)))


# ---- of a run -----------------------------------------------------------------------------------


def features(item: pytest.Item) -> list[str]:
    """Return the features that the item's markers name."""
    return sorted({name for mark in item.iter_markers(MARKER) for name in mark.args})


def _parameters(item: pytest.Item) -> dict[str, object]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def identifier(item: pytest.Item) -> tuple[str, str]:
    """The item's name without the kernel, and the kernel."""
    kernel = str(_parameters(item).get("kernel_series", ""))
    name, _, rest = item.nodeid.partition("[")
    if not kernel:
        return item.nodeid, ""
    others = "-".join(part for part in rest.removesuffix("]").split("-") if part != kernel)
    return f"{name}[{others}]" if others else name, kernel


def peer(item: pytest.Item) -> str | None:
    """Return the peer: Linux, none in particular (empty), or, None, nvmet itself."""
    from lab.cells import Cell

    kernel = identifier(item)[1]
    cell = next((one for one in _parameters(item).values() if isinstance(one, Cell)), None)
    if cell and cell.target == "kernel":
        return None
    return f"Linux {kernel}" if kernel and (cell is None or cell.host == "kernel") else ""


class Recorder:
    """The plugin: it records the results of marked tests, and checks the names in markers."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._found: dict[str, Outcome] = {}
        self._there = Collected(frozenset(), frozenset())

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line(
            "markers", f"{MARKER}(name, ...): what it shows, by its name in tests/features.toml"
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Record the tests found, before -k and -m select some of them."""
        for item in items:
            if unknown := set(features(item)) - self._names:
                raise pytest.UsageError(
                    f"{item.nodeid} is marked as of the feature {', '.join(sorted(unknown))}, "
                    "which tests/features.toml has not: add a row there, or mend the name."
                )
        shown = frozenset(identifier(item)[0] for item in items if features(item))
        self._there = Collected(shown, whole_files(config, items))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[object]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed or (report.passed and report.when == "call"):
            self._note(item, report)
        return report

    def _note(self, item: pytest.Item, report: pytest.TestReport) -> None:
        if not (shown := features(item)) or (other := peer(item)) is None:
            return
        test, kernel = identifier(item)
        date = time.strftime("%Y-%m-%d")
        self._found[item.nodeid] = Outcome(test, kernel, shown, report.outcome, other, date)

    def pytest_sessionfinish(self) -> None:
        merge(self._found.values(), self._there)
