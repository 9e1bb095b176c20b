# SPDX-License-Identifier: BSD-3-Clause
"""How processes share the tests of a run (pytest-xdist), and what is told of them at its end.

The tests of a guest's kernel go to one process, in their order: it boots that guest once.  Those
that take their time, on one kernel, go together too: whoever has done with the other's takes them.
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

FIRST_ATTEMPT = "what the first attempt came to"
"""A property of the report of a test that was run once more (lab/conftest.py)."""
_KERNEL = re.compile(r"tests/lab/(test_over_time)?.*[\[-](\d+\.\d+)[\]-]")


def group(test: str) -> str:
    """What goes to one process as a whole: tests of a kernel, or one of another kind."""
    found = _KERNEL.match(test)
    return f"kernel {found[2]} {found[1] or ''}" if found else test


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Scheduling:
    """Ours, whatever --dist says."""
    return _Scheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell of tests that passed at the second attempt only."""
    reports = [one for group in terminalreporter.stats.values() for one in group]
    for report in reports:
        first = dict(getattr(report, "user_properties", ())).get(FIRST_ATTEMPT)
        if first and not report.failed:
            terminalreporter.section(f"{report.nodeid} at its first attempt", sep="-")
            terminalreporter.write_line(first)
