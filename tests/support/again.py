# SPDX-License-Identifier: BSD-3-Clause
"""A second attempt of a failed test, which the end of the run reports.

A machine that is shared may stall for seconds, so that time limits are exceeded that have nothing
to do with the test. In CI (if ``CI`` is set) a failed test is run once more; elsewhere only those
of the lab are, whose guests' kernels have time limits of their own. More than a few in one
process show a real fault.

Each second attempt is a line of a file, to which all processes of a run write, and ctest's second
attempts as well: setup/checks.sh empties it, shows it at the end, and fails the run from the
second line on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

FILE = Path(__file__).resolve().parents[2] / "build" / "second-attempts.txt"
"""The file for the lines, unless ``NVMF_SECOND_ATTEMPTS`` names a different one."""

FIRST_ATTEMPT = "what the first attempt came to"
"""A property of the last report of a test that was run twice."""
_spare = 3


def spare() -> bool:
    """Take one of the few attempts; return whether one was left."""
    global _spare
    _spare -= 1
    return _spare >= 0


def run(
    item: pytest.Item,
    nextitem: pytest.Item | None,
    once_more: Callable[[list[pytest.TestReport]], bool],
) -> list[pytest.TestReport]:
    """Run a test, and if it failed and once_more agrees, again with fresh fixtures.

    Returns: The reports of the attempt that counts, which have been logged.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports) and once_more(reports):
        first = words(reports)
        torn_down = _tear_down(item)
        if torn_down.failed:  # a shared fixture ended badly: a second attempt cannot help
            reports.append(torn_down)
        else:
            _note(f"{item.nodeid}: {last_line(reports)}")
            item.stash = pytest.Stash()
            item._initrequest()  # type: ignore[attr-defined]
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            reports[-1].user_properties.append((FIRST_ATTEMPT, first))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return reports


def _tear_down(item: pytest.Item) -> pytest.TestReport:
    """Tear down every fixture, as after the last test of a run."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(None), when="teardown")
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report


def words(reports: list[pytest.TestReport]) -> str:
    """Return the result of an attempt."""
    return "\n".join(report.longreprtext for report in reports if report.failed)


def last_line(reports: Iterable[pytest.TestReport]) -> str:
    """Return the end of an attempt: place and exception, or the last line of its output."""
    failed = next(report for report in reports if report.failed)
    last = (failed.longreprtext.strip().splitlines() or ["no reason"])[-1]
    crash = getattr(failed.longrepr, "reprcrash", None)
    if crash and f":{crash.lineno}: " in last:  # the last line of a traceback is its place
        return f"{Path(crash.path).name}:{crash.lineno}: {crash.message.partition(chr(10))[0]}"
    return last


def _note(line: str) -> None:
    """Append a line, in one write, because other processes append as well."""
    file = Path(os.environ.get("NVMF_SECOND_ATTEMPTS") or FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    appended = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(appended, " ".join(line.split()).encode(errors="replace") + b"\n")
    finally:
        os.close(appended)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """If CI runs the tests; lab/conftest.py comes first for its own."""
    if not os.environ.get("CI") or not hasattr(item, "_initrequest"):
        return None
    run(item, nextitem, lambda reports: spare())
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the tests that passed only at the second attempt."""
    reports = [one for group in terminalreporter.stats.values() for one in group]
    for report in reports:
        first = dict(getattr(report, "user_properties", ())).get(FIRST_ATTEMPT)
        if first and not report.failed:
            terminalreporter.section(f"{report.nodeid} at its first attempt", sep="-")
            terminalreporter.write_line(first)
