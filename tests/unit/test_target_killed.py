# SPDX-License-Identifier: BSD-3-Clause
"""The target is killed at every write of stored state: the result is the old state or the new
one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
SCENARIOS = ("generation", "reservations", "namespaces", "health", "configuration")
HANG = 600
"""Seconds."""


@pytest.mark.parametrize("scenario", [*SCENARIOS])
def test_killed_at_every_call(scenario: str) -> None:
    # In memory if there is a folder for that: the system calls are the same, without a slow disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        _kill(scenario, Path(folder) / "state")


def _kill(scenario: str, folder: Path) -> None:
    argv = [sys.executable, str(TESTS / "support" / "killed.py"), scenario, str(folder)]
    # No leak check for a child that is killed.
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20, "it was killed at as many places"
