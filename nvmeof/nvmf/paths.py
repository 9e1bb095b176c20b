# SPDX-License-Identifier: BSD-3-Clause
"""Default path of the target's administration socket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def default_socket(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the default path: in the service manager's folder, or in /run."""
    if folder := environment.get("RUNTIME_DIRECTORY"):
        return Path(folder.split(":")[0]) / "target.sock"
    if os.geteuid() == 0:
        return Path("/run/nvmeof/target.sock")
    folder = environment.get("XDG_RUNTIME_DIR")
    return Path(folder) / "nvmeof" / "target.sock" if folder else None
