# SPDX-License-Identifier: BSD-3-Clause
"""Runs of the storage lab for tests: the command, as a second process."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHORT = """
[method]
runtime = 0.3
rounds = 2
timeout = 120
"""
RAM = """
[[system]]
name = "ram"
kind = "target"
size = "16MiB"
"""
NULL = """
[[system]]
name = "alone"
kind = "null"
"""
READS = """
[[workload]]
name = "reads"
rw = "randread"
iodepth = [1, 4]
"""
WRITES = """
[[workload]]
name = "writes"
rw = "randwrite"
bs = "4k"
"""


def write(folder: Path, *parts: str) -> Path:
    """Write a description of these parts."""
    path = folder / "lab.toml"
    path.write_text("".join(parts))
    return path


def command(words: tuple[str | Path, ...]) -> list[str]:
    """The command line; a run makes no report, which takes longer than most runs of tests."""
    more = ["--no-report"] if words[0] == "run" else []
    return [sys.executable, "-m", "nvmf.cli.main", "lab", *map(str, words), *more]


def lab(*words: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run nvmeof lab until it ends."""
    return subprocess.run(
        command(words),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        timeout=500,
    )


def started(*words: str | Path) -> subprocess.Popen[str]:
    """Start nvmeof lab."""
    return subprocess.Popen(
        command(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def rounds(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a results directory, also while a run writes to it."""
    try:
        database = sqlite3.connect(f"file:{folder}/results.sqlite?mode=ro", uri=True, timeout=60)
    except sqlite3.OperationalError:
        return []
    try:
        found = database.execute("SELECT * FROM round ORDER BY id")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]
    except sqlite3.OperationalError:  # it does not exist yet
        return []
    finally:
        database.close()


def wait_for_rounds(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until this many measurements have been made."""
    while len(rounds(folder)) < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
