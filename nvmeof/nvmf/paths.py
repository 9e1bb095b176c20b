# SPDX-License-Identifier: BSD-3-Clause
"""Where a target and those who administer it meet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def default_socket(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the socket is unless it is said otherwise: the service manager's folder, or /run."""
    if folder := environment.get("RUNTIME_DIRECTORY"):
        return Path(folder.split(":")[0]) / "target.sock"
    if os.geteuid() == 0:
        return Path("/run/nvmeof/target.sock")
    folder = environment.get("XDG_RUNTIME_DIR")
    return Path(folder) / "nvmeof" / "target.sock" if folder else None
