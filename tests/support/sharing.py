# SPDX-License-Identifier: BSD-3-Clause
"""Distribution of a run's tests over processes (pytest-xdist).

The tests of a guest's kernel go to one process, in their order: it boots that guest once.  The
slow ones on one kernel form a group of their own, as do those of a guest with systemd, and those
of two hosts: the process that has finished the other kernel's takes them.  Most tests run on one
kernel only: if the whole lab runs, they are two groups.

Each file of tests/interop goes to one process too, because most of its tests share a served target.
Tests with roce in their names go to one process, because a socket for all addresses excludes those
for one address: RoCEv2 has one UDP port.

An emulated guest takes a whole processor, the other tests mostly wait.  So two processes at most
have a guest at the same time, and further ones run the other tests meanwhile.

The files named in _TOGETHER have one group each, because all of their tests use one slow fixture,
which each process would make for itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

_KERNEL = re.compile(
    r"tests/lab/(test_over_time|test_systemd|test_two_hosts)?.*[\[-](\d+\.\d+|newest)[\]-]"
)
_SERVED = re.compile(r"tests/interop/\w+\.py")
_TOGETHER = re.compile(r"tests/unit/test_storage_lab_results\.py")


_MOST = "6.12"
"""The kernel on which all tests of the lab run."""
_LATE = "tests/lab/test_o"
"""Files after this name are about half of them."""


def half(test: str, kernel: str) -> str:
    """Return which half of the kernel's tests a test is in; "" if they are one group."""
    whole = os.environ.get("NVMF_LAB") == "all"
    return "late" if whole and kernel == _MOST and test > _LATE else ""


def group(test: str) -> str:
    """Return the group that goes to one process: tests of a kernel, or of a different kind."""
    if found := _KERNEL.match(test):
        return f"kernel {found[2]} {found[1] or half(test, found[2])}"
    if "roce" in test:
        return "roce"
    file = _SERVED.match(test) or _TOGETHER.match(test)
    return file[0] if file else test


def is_guest(one: str) -> bool:
    """Return whether the tests of this group need a guest."""
    return one.startswith("kernel ")


GUESTS = 2
"""The number of processes that may have a guest at the same time."""


def allowed(queue: Iterable[str], guests: int) -> str | None:
    """Return the first of these groups that a process may take while others have guests."""
    for one in queue:
        if guests < GUESTS or not is_guest(one):
            return one
    return None


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Groups of tests, one after the other, for each process."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test during which a process died, if it did; others run what it had not run.

        xdist would give them its finished groups, too, in which nothing is to be run: a process
        that gets one waits for the next one, which is given to processes that have run a test.
        """
        work = self.assigned_work[node].items()
        self.assigned_work[node] = {
            one: tests for one, tests in work if self._pending_of({one: tests})
        }
        found: str | None = super().remove_node(node)
        return found

    def _assign_work_unit(self, node: WorkerController) -> None:
        one = allowed(self.workqueue, self._guests_of_others(node))
        if one is None:
            node.shutdown()  # the processes with guests will take what is left
            return
        self.workqueue.move_to_end(one, last=False)
        super()._assign_work_unit(node)

    def _guests_of_others(self, node: WorkerController) -> int:
        return sum(
            any(is_guest(one) and self._pending_of({one: tests}) for one, tests in work.items())
            for other, work in self.assigned_work.items()
            if other is not node
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling:
    """Return our scheduler, whatever --dist says."""
    return Scheduling(config, log)
