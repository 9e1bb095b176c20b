# SPDX-License-Identifier: BSD-3-Clause
"""Distribution of tests over processes: one of them boots a kernel's guest."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import pytest

from support.sharing import GUESTS, Scheduling, allowed, group


def test_a_kernel_goes_to_one_process() -> None:
    row = "tests/lab/test_kernel_host.py::test_verify[ours-kernel-rxe-{}-2]"
    assert group(row.format("6.12")) == group("tests/lab/test_admin.py::test_follow[6.12]")
    assert group(row.format("6.12")) != group(row.format("6.1"))
    assert group(row.format("newest")) == "kernel newest "  # if there was no newest kernel


def test_the_kernel_of_most_tests_goes_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = "tests/lab/test_admin.py::test_x[{}]", "tests/lab/test_pyverbs.py::test_x[{}]"
    monkeypatch.delenv("NVMF_LAB", raising=False)
    assert group(early.format("6.12")) == group(late.format("6.12"))
    monkeypatch.setenv("NVMF_LAB", "all")
    assert group(early.format("6.12")) != group(late.format("6.12"))
    assert group(early.format("6.1")) == group(late.format("6.1"))


def test_what_takes_its_time_goes_together() -> None:
    killed = group("tests/lab/test_over_time.py::test_target_killed[6.12]")
    assert killed == group("tests/lab/test_over_time_power.py::test_host_killed[6.12]")
    assert killed != group("tests/lab/test_admin.py::test_follow[6.12]")
    assert killed != group("tests/lab/test_systemd.py::test_reload[6.12]")


def test_a_served_target_is_one_process_s() -> None:
    one = "tests/interop/test_bad_mpa.py::test_refused[an HTTP request]"
    assert group(one) == group("tests/interop/test_bad_mpa.py::test_silent")
    assert group(one) != group("tests/interop/test_random.py::test_commands[io-0]")


def test_a_slow_fixture_is_made_once() -> None:
    one = "tests/unit/test_storage_lab_results.py::test_csv"
    assert group(one) == group("tests/unit/test_storage_lab_results.py::test_nothing_is_left_to_do")
    assert group("tests/unit/test_storage_lab_run.py::test_set_up_and_tear_down") != group(one)


def test_one_process_has_the_udp_port() -> None:
    one = "tests/unit/test_roce.py::test_all_addresses"
    assert group(one) == group("tests/unit/test_doctor.py::test_roce_port_of_the_kernel[True]")


def test_others_go_where_there_is_room() -> None:
    one = "tests/unit/test_key.py::test_size[6.12]"
    assert group(one) == one


def test_two_guests_at_most() -> None:
    queue = ["kernel 6.1 ", "kernel newest ", "a test"]
    assert allowed(queue, guests=GUESTS - 1) == "kernel 6.1 "
    assert allowed(queue, guests=GUESTS) == "a test"
    assert allowed(queue[:2], guests=GUESTS) is None
    assert allowed([], guests=0) is None


@dataclass(eq=False)
class _Process:
    tests: list[int] = field(default_factory=list)
    """The tests that it was told to run."""
    shutting_down: bool = False

    def send_runtest_some(self, tests: list[int]) -> None:
        assert tests, "it would wait for more, and is given none before it has run a test"
        self.tests += tests

    def shutdown(self) -> None:
        self.shutting_down = True


def test_others_run_the_rest_of_a_process_that_died() -> None:
    tests = ["tests/unit/test_a.py::test_a", "tests/unit/test_b.py::test_b", "test_c"]
    dead, idle = _Process(), _Process()
    scheduling = Scheduling.__new__(Scheduling)
    scheduling.log = lambda *_: None
    scheduling.workqueue = OrderedDict()
    scheduling.registered_collections = {dead: tests, idle: tests}
    scheduling.assigned_work = {
        dead: {tests[0]: {tests[0]: True}, tests[1]: {tests[1]: False}},
        idle: {tests[2]: {tests[2]: True}},
    }
    assert scheduling.remove_node(dead) == tests[1]
    assert idle.tests == [1]
    assert not scheduling.workqueue
    scheduling.mark_test_complete(idle, 1)
    assert idle.shutting_down
