# SPDX-License-Identifier: BSD-3-Clause
"""Processes of a lab or a demonstration that end with it, also if it is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

_UNLESS_ORPHAN = '[ "$PPID" = "$0" ] && exec "$@"'
"""A shell program: the parent may have been killed before the kernel was asked for the signal."""


def bound(words: Sequence[str]) -> list[str]:
    """Return a command that the kernel ends (SIGTERM) when the calling thread's process dies.

    Only a child of this process may run it. Without util-linux's setpriv it is the command itself.
    """
    tool = shutil.which("setpriv")
    if tool is None:
        return list(words)
    checked = ["/bin/sh", "-c", _UNLESS_ORPHAN, str(os.getpid()), *words]
    return [tool, "--pdeathsig", "TERM", "--", *checked]
