# SPDX-License-Identifier: BSD-3-Clause
"""Block devices whose data is in a file."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def loop_device(path: Path, size: int) -> Iterator[Path]:
    """Yield a block device of so many bytes, zeroes, on a sparse file; skip where none can be."""
    path.touch()
    os.truncate(path, size)
    made = subprocess.run(
        ["losetup", "--find", "--show", path], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no loop device can be made here: {made.stderr.strip()}")
    device = Path(made.stdout.strip())
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
