# SPDX-License-Identifier: BSD-3-Clause
"""Unhandled exceptions, and callbacks that block an event loop, fail a test."""

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
from pathlib import Path

from nvmf.rpc.sync import connect
from support import slow
from support.served import Served, config

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

def sleeps():
    while not slow.times().slow:
        time.sleep(0.1)

async def test_sleeping_callback():
    asyncio.get_running_loop().call_soon(sleeps)
    await asyncio.sleep(0.01)

async def computes():
    while not slow.times().slow:
        sum(range(10_000))

async def test_computing_task():
    await asyncio.create_task(computes())

class Computing(Served):
    program = (str(Path(__file__).with_name("computing_target.py")), "target", "serve")

def test_computing_target(tmp_path):
    with Computing(tmp_path, config()) as target:
        target.wait_ready()
        with connect(target.rpc_socket) as rpc:
            rpc.config()
        assert target.end() == 0

async def test_short_callbacks():
    for _ in range(100):
        asyncio.get_running_loop().call_soon(time.sleep, 0.01)
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


_TARGET = """
import sys

import slow
from nvmf.cli.main import main
from nvmf.target.service.administration import Administration

described = Administration.described

def computes(*args, **options):
    while not slow.times().slow:
        pass
    return described(*args, **options)

Administration.described = computes
sys.exit(main())
"""


def test_all(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_TESTS)
    (tmp_path / "computing_target.py").write_text(_TARGET)
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
        *("test_task", "test_callback", "test_task_in_a_cycle", "test_thread", "test_finalizer"),
        *("test_sleeping_callback", "test_computing_task", "test_computing_target"),
    }, said
    assert "nobody asked" in said
    assert "Task exception was never retrieved" in said
    slow = [line for line in said.splitlines() if " s on the processor, blocked for " in line]
    assert len(slow) == 3, said
    assert "sleeps" in slow[0]
    assert "computes()" in slow[1]
    assert slow[2].startswith("process ")
