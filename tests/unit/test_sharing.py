# SPDX-License-Identifier: BSD-3-Clause
"""Distribution of tests over processes: one of them boots a kernel's guest."""

from __future__ import annotations

from support.sharing import GUESTS, allowed, group


def test_a_kernel_goes_to_one_process() -> None:
    row = "tests/lab/test_kernel_host.py::test_verify[ours-kernel-rxe-{}-2]"
    assert group(row.format("6.12")) == group("tests/lab/test_admin.py::test_follow[6.12]")
    assert group(row.format("6.12")) != group(row.format("6.1"))
    assert group(row.format("newest")) == "kernel newest "  # if there was no newest kernel


def test_what_takes_its_time_goes_together() -> None:
    killed = group("tests/lab/test_over_time.py::test_target_killed[6.12]")
    assert killed == group("tests/lab/test_over_time_power.py::test_host_killed[6.12]")
    assert killed != group("tests/lab/test_admin.py::test_follow[6.12]")
    assert killed != group("tests/lab/test_systemd.py::test_reload[6.12]")


def test_a_served_target_is_one_process_s() -> None:
    one = "tests/interop/test_bad_mpa.py::test_refused[an HTTP request]"
    assert group(one) == group("tests/interop/test_bad_mpa.py::test_silent")
    assert group(one) != group("tests/interop/test_random.py::test_commands[io-0]")


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
