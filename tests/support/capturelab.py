# SPDX-License-Identifier: BSD-3-Clause
"""The commands nvmeof capture and nvmeof replay, run on a served target."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from nvmf.capture.explain import Explained, explain
from support.served import SUBNQN, TIMEOUT

PROGRAM = [sys.executable, "-m", "nvmf.cli.main"]
BLOCKS = 64 * 1024


def nvmeof(*words: object, status: int = 0) -> str:
    """Run the command; return its standard output."""
    done = subprocess.run(
        [*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out.decode(), err.decode()


def read_file(path: Path) -> Explained:
    return explain(path.read_bytes(), keep=True)


def until_recorded(path: Path) -> None:
    """Wait until a recording to a file has begun."""
    deadline = time.monotonic() + TIMEOUT
    while not path.exists() or path.stat().st_size < 60:  # a section and an interface
        assert time.monotonic() < deadline
        time.sleep(0.02)


def url(port: int) -> str:
    return f"nvme+rdma://127.0.0.1:{port}/{SUBNQN}?device=iwarp"


def record_a_write(port: int, folder: Path) -> tuple[Path, bytes]:
    """Return a capture of a write, and the data."""
    content = os.urandom(BLOCKS)
    (folder / "in").write_bytes(content)
    nvmeof(
        "capture", folder / "w.pcapng", "--", *PROGRAM, "write", url(port), "-z", BLOCKS,
        "-d", folder / "in",
    )  # fmt: skip
    return folder / "w.pcapng", content
