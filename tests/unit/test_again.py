# SPDX-License-Identifier: BSD-3-Clause
"""The second attempt that CI gives a test: which tests get one, and the report at the end of the
run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TREE = Path(__file__).resolve().parents[2]

_TESTS = """
made = []

import pytest

@pytest.fixture
def attempt():
    made.append(1)
    return len(made)

def test_once(attempt):
    assert attempt == 2, "a machine that stalled"

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

_SAID = """
import pytest

made = []

def test_says():
    made.append(1)
    if len(made) == 1:
        pytest.fail("the kernel complains:\\nWARNING: list corruption", pytrace=False)
"""


def run(folder: Path, ci: str, tests: str = _TESTS, *options: str) -> tuple[int, str]:
    """Run pytest; return its exit status and its output."""
    (folder / "test_it.py").write_text(tests)
    environ = os.environ | {
        "CI": ci,
        "NVMF_SECOND_ATTEMPTS": str(folder / "lines"),
        "PYTHONPATH": str(_TREE / "tests"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.again", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def _lines(folder: Path) -> list[str]:
    return (folder / "lines").read_text().splitlines()


def test_in_ci(tmp_path: Path) -> None:
    status, said = run(tmp_path, "1")
    assert status == 1
    assert "4 failed, 1 passed" in said
    assert "test_once at its first attempt" in said
    assert "a machine that stalled" in said
    assert said.count("at its first attempt") == 3
    assert _lines(tmp_path) == [
        "test_it.py::test_once: test_it.py:12: AssertionError: a machine that stalled",
        "test_it.py::test_never[0]: test_it.py:16: AssertionError: broken 0",
        "test_it.py::test_never[1]: test_it.py:16: AssertionError: broken 1",
    ]


def test_processes_have_a_file_in_common(tmp_path: Path) -> None:
    run(tmp_path, "1", _TESTS, "-n", "2")
    lines = _lines(tmp_path)
    assert len(lines) == 5
    assert all(line.startswith("test_it.py::test_") for line in lines)


def test_last_line_of_what_has_no_traceback(tmp_path: Path) -> None:
    run(tmp_path, "1", _SAID)
    assert _lines(tmp_path) == ["test_it.py::test_says: WARNING: list corruption"]


def test_elsewhere(tmp_path: Path) -> None:
    status, said = run(tmp_path, "")
    assert status == 1
    assert "5 failed" in said
    assert "first attempt" not in said
    assert not (tmp_path / "lines").exists()


def test_shared_fixture_that_ends_badly(tmp_path: Path) -> None:
    """The failure is reported as an error of the test, and the tests after it run."""
    status, said = run(tmp_path, "1", _SHARED)
    assert status == 1
    assert "1 failed, 1 passed" in said
    assert "1 error" in said
    assert "no answer" in said
    assert "the server ended badly" in said
    assert not (tmp_path / "lines").exists()


# ---- the use of the lines by ./dev ----

_CHECKS = """
say() { printf '%s\\n' "$*"; }
JOBS=1
. "$1"
shift
"$@"
"""


def checks(folder: Path, *command: str, ci: str = "1") -> tuple[int, str]:
    """Call a function of tests/setup/checks.sh; return its status and output."""
    done = subprocess.run(
        ["sh", "-c", _CHECKS, "sh", str(_TREE / "tests/setup/checks.sh"), *command],
        cwd=folder,
        env=os.environ | {"CI": ci},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_one_line_is_told_and_two_fail(tmp_path: Path) -> None:
    assert checks(tmp_path, "forget_second_attempts") == (0, "")
    assert checks(tmp_path, "tell_second_attempts") == (0, "")
    file = tmp_path / "build" / "second-attempts.txt"
    file.write_text("a::test: late\n")
    status, said = checks(tmp_path, "tell_second_attempts")
    assert status == 0
    assert "a::test: late" in said
    file.write_text("a::test: late\nb::test: slow\n")
    status, said = checks(tmp_path, "tell_second_attempts")
    assert status == 1
    assert "b::test: slow" in said
    assert checks(tmp_path, "forget_second_attempts") == (0, "")
    assert file.read_text() == ""


def test_status_of_what_was_run_stays(tmp_path: Path) -> None:
    lines = tmp_path / "build" / "second-attempts.txt"
    say = f"echo one >>{lines}; "
    assert checks(tmp_path, "attempts_told", "sh", "-c", "exit 5")[0] == 5
    assert checks(tmp_path, "attempts_told", "sh", "-c", say + "exit 0")[0] == 0
    assert checks(tmp_path, "attempts_told", "sh", "-c", say + say)[0] == 1
    assert checks(tmp_path, "attempts_told", "sh", "-c", say + say + "exit 5")[0] == 5


def test_ctest(tmp_path: Path) -> None:
    """A C test that passes only at the second attempt."""
    tree = tmp_path / "build" / "dev"
    tree.mkdir(parents=True)
    # Relative names of its folder: that of ctest is the test's.
    fails_once = "[ -e went ] || { touch went; echo early; echo 'check failed: x == 1'; exit 1; }"
    (tree / "fails_once.sh").write_text(fails_once)
    (tree / "CTestTestfile.cmake").write_text(
        'add_test(fails_once "sh" "fails_once.sh")\nadd_test(passes "true")\n'
    )
    status, said = checks(tmp_path, "run_ctest", "dev")
    assert status == 0, said
    lines = (tmp_path / "build" / "second-attempts.txt").read_text()
    assert lines == "ctest dev fails_once: check failed: x == 1\n"
    (tree / "went").unlink()
    assert checks(tmp_path, "run_ctest", "dev", ci="")[0] == 1
