# SPDX-License-Identifier: BSD-3-Clause
"""Processes of a lab or a demonstration that end with it, also if it is killed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence


def bound(words: Sequence[str]) -> list[str]:
    """Return a command that the kernel ends (SIGTERM) when the calling thread's process dies.

    Without util-linux's setpriv it is the command itself.
    """
    tool = shutil.which("setpriv")
    return [tool, "--pdeathsig", "TERM", "--", *words] if tool else list(words)
