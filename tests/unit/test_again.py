# SPDX-License-Identifier: BSD-3-Clause
"""The second attempt that CI gives a test: who gets one, and that the end of the run tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TESTS = """
made = []

import pytest

@pytest.fixture
def attempt():
    made.append(1)
    return len(made)

def test_once(attempt):
    assert attempt == 2, "a machine that stood still"

@pytest.mark.parametrize("n", range(4))
def test_never(n):
    assert False, f"broken {n}"
"""


_SHARED = """
import pytest

@pytest.fixture(scope="module")
def server():
    yield
    assert False, "the server ended badly"

def test_breaks_it(server):
    assert False, "no answer"

def test_next():
    pass
"""


def run(folder: Path, ci: str, tests: str = _TESTS) -> tuple[int, str]:
    """What pytest comes to: its exit status, and what it says."""
    (folder / "test_it.py").write_text(tests)
    environ = os.environ | {"CI": ci, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "again", "-p", "no:cacheprovider", "test_it.py"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def test_in_ci(tmp_path: Path) -> None:
    status, said = run(tmp_path, "1")
    assert status == 1
    assert "4 failed, 1 passed" in said
    assert "test_once at its first attempt" in said
    assert "a machine that stood still" in said
    assert said.count("at its first attempt") == 3


def test_elsewhere(tmp_path: Path) -> None:
    status, said = run(tmp_path, "")
    assert status == 1
    assert "5 failed" in said
    assert "first attempt" not in said


def test_shared_fixture_that_ends_badly(tmp_path: Path) -> None:
    """It is an error of the test, not of pytest, and the tests behind it run."""
    status, said = run(tmp_path, "1", _SHARED)
    assert status == 1
    assert "1 failed, 1 passed" in said
    assert "1 error" in said
    assert "no answer" in said
    assert "the server ended badly" in said
