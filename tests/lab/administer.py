# SPDX-License-Identifier: BSD-3-Clause
"""``nvmeof target ...`` for a target of ours that runs beside the guest."""

from __future__ import annotations

import subprocess
import sys

from lab.waiting import PATIENCE
from support.served import Served


def administer(served: Served, *words: object) -> None:
    """Run one command, which must succeed."""
    argv = [sys.executable, "-m", "nvmf.cli.main", "target", *map(str, words)]
    argv += ["--rpc-socket", str(served.rpc_socket)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
