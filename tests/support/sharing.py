# SPDX-License-Identifier: BSD-3-Clause
"""How processes share the tests of a run (pytest-xdist).

The tests of a guest's kernel go to one process, in their order: it boots that guest once.  The
slow ones on one kernel form a group of their own, as do those of a guest with systemd, and those
of two hosts: the process that has finished the other kernel's takes them. So does each file of
tests/interop, because most of its tests share a served target.  Tests with roce in their names go
to one process, because a socket for all addresses excludes those for one address: RoCEv2 has one
UDP port.
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
    """Return the group that goes to one process: tests of a kernel, or of a different kind."""
    if found := _KERNEL.match(test):
        return f"kernel {found[2]} {found[1] or ''}"
    if "roce" in test:
        return "roce"
    served = _SERVED.match(test)
    return served[0] if served else test


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _Scheduling:
    """Return our scheduler, whatever --dist says."""
    return _Scheduling(config, log)
