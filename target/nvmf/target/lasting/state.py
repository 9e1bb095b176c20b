# SPDX-License-Identifier: BSD-3-Clause
"""What must outlive the target: small files in the state folder, replaced as a whole or not at all.

The folder is `[target] state_dir`, else that of systemd ($STATE_DIRECTORY), else there is none.
Whatever kills the target or the machine, a file is the old one or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_ASIDE_MOST = 100
_MOST = 64 << 20
"""Bytes of a file that are read; the target writes none of a tenth of it."""
_LEFT = ".*.new"
"""What a write that was killed leaves."""


class DamagedState(ValueError):
    """A file of the state folder is not what was written there; a sentence names it."""


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
        sweep(folder)
    return folder


def sweep(folder: Path) -> None:
    """Remove what writes have left that were killed, here and in its folders."""
    for left in (*folder.glob(_LEFT), *folder.glob(f"*/{_LEFT}")):
        with contextlib.suppress(OSError):
            left.unlink()


def read(path: Path) -> bytes:
    """The content of a file.

    OSError, also where it is a pipe or a device, which could keep its reader for ever, or is larger
    than any that was written here.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if found.st_size > _MOST:
            raise OSError(errno.EFBIG, f"it has {found.st_size} bytes")
        return file.read(_MOST)


def write_atomically(path: Path, data: bytes) -> None:
    """Put data in the place of a file's content, safe from power loss too; may block.

    OSError where it cannot be done: the old content is still there then.
    """
    handle, name = tempfile.mkstemp(".new", f".{path.name}.", path.parent)
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
    _sync(path.parent)


def remove(path: Path) -> None:
    """Take a file away that may be there, so that it does not come back; may block.  OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        _sync(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder of the state folder where it is not there; may block.  OSError."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def set_aside(path: Path) -> Path:
    """Give a file that is not understood another name, so that nothing of it is lost; its new one.

    OSError where that cannot be.
    """
    for number in range(1, _ASIDE_MOST + 1):
        other = path.with_name(f"{path.name}.damaged-{number}")
        if not other.exists():
            os.rename(path, other)
            return other
    raise FileExistsError(errno.EEXIST, f"there are {_ASIDE_MOST} that were set aside already")


def seal(name: str, body: Mapping[str, Any]) -> bytes:
    """A file's content: JSON of body under name, with a CRC-32 of it."""
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"crc32": zlib.crc32(text.encode()), name: body}).encode() + b"\n"


def unseal(path: Path, name: str, decode: Callable[[Any], T], lost: str) -> T | None:
    """What decode makes of a sealed file; None where there is no file.

    DamagedState where it is another, or decode raises: lost is what is not known then, and what
    to do about it.
    """
    try:
        data = read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedState(f"{path} cannot be read: {error.strerror}") from error
    try:
        whole = json.loads(data.decode())
        body = whole[name]
        if zlib.crc32(json.dumps(body, sort_keys=True).encode()) != whole["crc32"]:
            raise ValueError("its CRC is wrong")
        return decode(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedState(f"{path} is damaged ({error}): {lost}") from error
