# SPDX-License-Identifier: BSD-3-Clause
"""How processes share the tests of a run (pytest-xdist).

The tests of a guest's kernel go to one process, in their order: it boots that guest once.  Those
that take their time, on one kernel, go together too, those of a guest with systemd, and those of
two hosts: whoever has done with the other kernel's takes them.
So do those of a file of tests/interop, most of which have a served target in common.
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_KERNEL = re.compile(
    r"tests/lab/(test_over_time|test_systemd|test_two_hosts)?.*[\[-](\d+\.\d+|newest)[\]-]"
)
_SERVED = re.compile(r"tests/interop/\w+\.py")


def group(test: str) -> str:
    """What goes to one process as a whole: tests of a kernel, or one of another kind."""
    if found := _KERNEL.match(test):
        return f"kernel {found[2]} {found[1] or ''}"
    served = _SERVED.match(test)
    return served[0] if served else test


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Scheduling:
    """Ours, whatever --dist says."""
    return _Scheduling(config, log)
