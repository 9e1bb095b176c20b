# SPDX-License-Identifier: BSD-3-Clause
"""A guest that does not boot, panics or hangs: a clear end in time, with its log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import guest as guest_module
from lab.conftest import Lab
from lab.guest import Guest
from lab.network import CannotRun, Network
from lab.prepare import Kernel, prepared
from lab.running import GuestError

BOOT = 300.0
"""Seconds for a kernel that should boot, on any machine."""


@pytest.fixture(scope="module")
def kernel(cable: Network, lab: Lab, kernel_series: str) -> Kernel:
    lab.close()  # it uses the network
    found = prepared(kernel_series)
    assert found is not None
    return found


@contextmanager
def booted(kernel: Kernel, cable: Network) -> Iterator[Guest]:
    one = Guest(kernel, cable, cpus=1, memory="512M")
    try:
        yield one
    finally:
        one.close()


def failure(kernel: Kernel, cable: Network, more: str, seconds: float) -> str:
    """Return the error of a guest that does not boot with additional kernel parameters."""
    started = time.monotonic()
    with pytest.raises(GuestError) as caught:
        Guest(kernel, cable, cpus=1, memory="512M", more=more, boot_seconds=seconds).close()
    assert time.monotonic() - started < seconds + 60
    return str(caught.value)


def test_never_boots(kernel: Kernel, cable: Network) -> None:
    said = failure(kernel, cable, "rdinit=/bin/busybox -- sleep 3600", 30)
    assert "did not boot within 30 s" in said
    assert "Run /bin/busybox as init process" in said, "its log is not shown"


def test_panics_while_booting(kernel: Kernel, cable: Network) -> None:
    said = failure(kernel, cable, "rdinit=/nothing root=/dev/nothing", BOOT)
    assert "died" in said
    assert "Kernel panic" in said


def test_panics_under_a_command(kernel: Kernel, cable: Network) -> None:
    with booted(kernel, cable) as one:
        running = one.start("echo working; exec sleep 3600")
        running.wait_for("working")
        one.start("echo c > /proc/sysrq-trigger")
        with pytest.raises(GuestError, match="died") as caught:
            running.wait(BOOT)
        assert "Kernel panic" in str(caught.value)
        assert not one.healthy()
        with pytest.raises(GuestError, match="died"):
            one.run("true")


def test_hangs(kernel: Kernel, cable: Network) -> None:
    """With stopped processors, a command ends at its time limit, and the guest is not healthy."""
    with booted(kernel, cable) as one:
        os.kill(one.pid, signal.SIGSTOP)
        with pytest.raises(GuestError, match="did not end within 1 s"):
            one.run("true", timeout=1)
        assert not one.healthy(timeout=1)
        assert one.dead == "did not answer for 1 s"


def test_a_command_that_hangs(kernel: Kernel, cable: Network) -> None:
    """A command that hangs is killed with its children, its output is shown, and the guest still
    works.
    """
    with booted(kernel, cable) as one:
        with pytest.raises(GuestError, match="did not end within 3 s") as caught:
            one.run("echo so far; sleep 3600 & sleep 3600", timeout=3)
        assert "so far" in str(caught.value) or one.healthy()
        # It was sent SIGKILL; a busy guest may end it later.
        assert one.run("while pgrep '^sleep$' >/dev/null; do :; done; echo gone").stdout == "gone\n"
        assert one.run("exit 7", check=False).status == 7


def test_no_emulator(kernel: Kernel, cable: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_module, "QEMU", "qemu-of-nobody")
    with pytest.raises(CannotRun, match="there is no qemu-of-nobody"):
        Guest(kernel, cable)


def test_the_emulator_refuses(kernel: Kernel, cable: Network) -> None:
    # Before or after it opened the port: its output is shown in both cases.
    with pytest.raises((CannotRun, GuestError), match="cannot set up guest memory"):
        Guest(kernel, cable, memory="512T")
