# SPDX-License-Identifier: BSD-3-Clause
"""Unhandled exceptions fail a test, and callbacks that block an event loop are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_TREE = Path(__file__).resolve().parents[2]

_SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings =
    error
    ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning
"""

_TESTS = """
import asyncio
import threading
import time

async def fails():
    raise ValueError("nobody asked")

async def test_task():
    asyncio.create_task(fails())
    await asyncio.sleep(0.01)

async def test_callback():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0.01)

async def test_task_in_a_cycle():
    kept = [asyncio.create_task(fails())]
    kept.append(kept)
    await asyncio.sleep(0.01)

def test_thread():
    one = threading.Thread(target=lambda: 1 / 0)
    one.start()
    one.join()

class Bad:
    def __del__(self):
        raise ValueError("in a finalizer")

def test_finalizer():
    bad = Bad()
    del bad

def stands_still():
    time.sleep(1.2)

async def test_machine_stands_still():
    asyncio.get_running_loop().call_soon(stands_still)
    await asyncio.sleep(0.01)

async def test_asked():
    task = asyncio.create_task(fails())
    try:
        await task
    except ValueError:
        pass

def test_next():
    pass
"""


def test_all(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text(_SETTINGS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.strays", "-p", "no:cacheprovider", "-ra"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(_TREE / "tests"), "CI": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stdout + done.stderr
    bad = set()
    for line in said.splitlines():
        if line.startswith(("FAILED test", "ERROR test")):
            bad.add(line.split()[1].removeprefix("test_it.py::"))
    assert bad == {
        *("test_task", "test_callback", "test_task_in_a_cycle", "test_thread", "test_finalizer")
    }, said
    assert "nobody asked" in said
    assert "Task exception was never retrieved" in said
    slow = said.partition("slow callbacks of event loops")[2]
    assert "test_machine_stands_still: " in slow
    assert "stands_still" in slow
