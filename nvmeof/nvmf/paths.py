# SPDX-License-Identifier: BSD-3-Clause
"""Default paths: of the target's administration socket, and of the fio engine; files to read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path


def default_socket(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the default path: in the service manager's folder, in /run, or in /tmp.

    None if a different user has prepared the folder in /tmp.
    """
    if folder := environment.get("RUNTIME_DIRECTORY"):
        return Path(folder.split(":")[0]) / "target.sock"
    if os.geteuid() == 0:
        return Path("/run/nvmeof/target.sock")
    folder = environment.get("XDG_RUNTIME_DIR")
    if folder:
        return Path(folder) / "nvmeof" / "target.sock"
    uid = os.geteuid()
    run = Path(f"/run/user/{uid}")
    if run.is_dir() and os.access(run, os.W_OK):
        return run / "nvmeof" / "target.sock"
    place = Path(f"/tmp/nvmeof-{uid}")
    try:
        found = place.lstat()
    except OSError:
        return place / "target.sock"  # made by own_folder()
    return place / "target.sock" if _is_own(found) else None


def refuse_device(path: Path) -> None:
    """Raise OSError if a path is a device, whose content may be endless."""
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "it is a device, not a file", str(path))


def own_folder(path: Path) -> None:
    """Create the folder of a default socket.

    Raises:
        OSError: It cannot be created, or in /tmp a different user may have prepared it.
    """
    if path.parent.parent != Path("/tmp"):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        return
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_own(path.parent.lstat()):
        raise PermissionError(errno.EPERM, "belongs to a different user, or is open to others")


def further_sockets(first: Path) -> list[Path]:
    """Return the paths for further targets of this user: target-2.sock and so on."""
    return [first.with_name(f"{first.stem}-{number}{first.suffix}") for number in range(2, 17)]


def _is_own(found: os.stat_result) -> bool:
    """Return whether this is a folder of this user that no other user can write to."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o22


def fio_engine_path(version: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the fio engine for a version of fio, such as fio-3.33, is built by default."""
    data = environment.get("XDG_DATA_HOME")
    folder = Path(data) if data else Path.home() / ".local" / "share"
    return folder / "nvmeof" / f"nvmeof-{version}.so"


def verbs_library() -> Path:
    """Return the library with the embedded devices for programs of libibverbs."""
    return Path(__file__).resolve().parent / "engine" / "libnvmf-verbs.so"
