# SPDX-License-Identifier: BSD-3-Clause
"""What must outlive the target: small files in the state folder, replaced as a whole or not at all.

The folder is `[target] state_dir`, else that of systemd ($STATE_DIRECTORY), else there is none.
Whatever kills the target or the machine, a file is the old one or the new one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def state_folder(
    configured: Path | None, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """The state folder, made where it is not there; None where nothing names one.

    OSError where it cannot be made.
    """
    named = environment.get("STATE_DIRECTORY", "").split(":")[0]
    folder = configured or (Path(named) if named else None)
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_atomically(path: Path, data: bytes) -> None:
    """Put data in the place of a file's content, safe from power loss too; may block.

    OSError where it cannot be done: the old content is still there then.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
