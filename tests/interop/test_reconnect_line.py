# SPDX-License-Identifier: BSD-3-Clause
"""The output of a command while its target is away: a line on a terminal, else a warning."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from support.served import SUBNQN, TIMEOUT, Served, config

T = TypeVar("T", str, bytes)
RAM = 'store="null"\nsize="1TiB"'


def copy(port: int, loss: int) -> list[str]:
    """Return a command that reads for longer than any test takes."""
    return [
        *(sys.executable, "-m", "nvmf.cli.main", "read", "-a", "127.0.0.1", "-s", str(port)),
        *(
            "-n",
            SUBNQN,
            "--device",
            "iwarp",
            "--reconnect-delay",
            "0.2",
            "--ctrl-loss-tmo",
            str(loss),
            "-d",
            "/dev/null",
        ),
    ]


@contextlib.contextmanager
def ending(running: subprocess.Popen[T]) -> Iterator[subprocess.Popen[T]]:
    """End the process after a failure."""
    with running:
        try:
            yield running
        finally:
            running.kill()


def read_until(descriptor: int, said: str, wanted: str) -> str:
    """Read from a terminal until the wanted text has been printed; return all text."""
    deadline = time.monotonic() + TIMEOUT
    while not re.search(wanted, said):
        assert time.monotonic() < deadline, said
        if select.select([descriptor], [], [], 1)[0]:
            try:
                said += os.read(descriptor, 65536).decode()
            except OSError:  # the last writer has closed it
                break
    return said


def test_a_terminal(tmp_path: Path) -> None:
    """Attempts replace one another; the new connection ends the line."""
    target = Served(tmp_path, config([RAM])).wait_ready()
    port = target.port
    master, slave = pty.openpty()
    with ending(
        subprocess.Popen(copy(port, 600), stderr=slave, stdout=slave, stdin=slave)
    ) as running:
        os.close(slave)
        said = read_until(master, "", "read: ")  # the progress
        target.kill()
        said = read_until(master, said, r"attempt 3, \d+ s left: connection refused")
        attempts = re.findall(r"[^\r\n]*attempt \d[^\r\n]*", said)
        with Served(tmp_path, config([RAM], port=port)) as again:
            again.wait_ready()
            read_until(master, "", r"\r\x1b\[KWARNING: .*connected again\r\n")
            running.terminate()
            read_until(master, "", "interrupted|terminated")
            running.wait(TIMEOUT)
    os.close(master)
    assert all(one.startswith("\x1b[Kreconnecting: ") for one in attempts), attempts
    assert "\n" not in said[said.index("attempt 1,") :]


@pytest.mark.parametrize("loss", [2])
def test_a_pipe(tmp_path: Path, loss: int) -> None:
    """A pipe gets one warning with the attempt, its reason and the remaining time, and then the
    reason of the end.

    With -v, the other attempts are shown, too.
    """
    target = Served(tmp_path, config([RAM])).wait_ready()
    with ending(
        subprocess.Popen([*copy(target.port, loss), "-v"], stderr=subprocess.PIPE, text=True)
    ) as running:
        assert running.stderr is not None
        while not running.stderr.readline().startswith("read: "):  # the progress
            assert running.poll() is None
        target.kill()
        said = running.communicate(timeout=TIMEOUT)[1]
    assert running.returncode == 1
    first, *others = [line for line in said.splitlines() if "cannot reconnect" in line]
    assert re.match(r"WARNING: .*\(attempt 1, \d s left\): connecting .*refused", first)
    for number, line in enumerate(others, 2):
        assert re.match(rf"INFO: .*\(attempt {number}, \d s left\)", line)
    assert "\x1b" not in said
    assert re.search(rf"not made again within {loss} s \(ctrl_loss_tmo\): ", said)
