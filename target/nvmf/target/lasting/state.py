# SPDX-License-Identifier: BSD-3-Clause
"""Persistent state: small files in the state folder, replaced atomically.

The folder is `[target] state_dir`, or that of systemd ($STATE_DIRECTORY); otherwise there is none.
If the target or the machine crashes, a file has its old or its new content.
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
from typing import TypeVar

from nvmf.errors import Error
from nvmf.json import JSON

T = TypeVar("T")

_ASIDE_MOST = 100
_MOST = 64 << 20
"""Maximum bytes of a file to read; files of the target have less than a tenth of it."""
_LEFT = ".*.new"
"""Temporary files left by interrupted writes."""


class DamagedState(Error, ValueError):
    """A file of the state folder is damaged; the message gives its path."""


def state_folder(
    configured: Path | None, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """Return the state folder, created if missing; None if none is configured.

    Raise OSError if it cannot be created.
    """
    named = environment.get("STATE_DIRECTORY", "").split(":")[0]
    folder = configured or (Path(named) if named else None)
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(folder)
    return folder


def sweep(folder: Path) -> None:
    """Remove temporary files of interrupted writes, here and in subfolders."""
    for left in (*folder.glob(_LEFT), *folder.glob(f"*/{_LEFT}")):
        with contextlib.suppress(OSError):
            left.unlink()


def read(path: Path) -> bytes:
    """Return the content of a file.

    Raise OSError also if it is a pipe or a device, which could block the reader forever, or larger
    than any file written here.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if found.st_size > _MOST:
            raise OSError(errno.EFBIG, f"it has {found.st_size} bytes")
        return file.read(_MOST)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content atomically, even on power loss; may block.

    Raise OSError on failure: the file then has its old content, or either if the machine loses its
    power after a failed sync of the folder.
    """
    with contextlib.ExitStack() as stack:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, folder)
        there = path.exists()
        before = None
        with contextlib.suppress(OSError):
            before = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # it may be a pipe
            stack.callback(os.close, before)
        _replace(path, data)
        try:
            os.fsync(folder)
        except OSError:
            with contextlib.suppress(OSError):
                if before is not None:
                    _restore(path, before)
                elif not there:
                    path.unlink()
            raise


def _replace(path: Path, data: bytes) -> None:
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


def _restore(path: Path, before: int) -> None:
    """Give a file the content that the descriptor of its predecessor has."""
    found = os.fstat(before)
    if stat.S_ISREG(found.st_mode):
        _replace(path, os.pread(before, found.st_size, 0))


def remove(path: Path) -> None:
    """Remove a file durably, if it exists; may block.  Raise OSError on failure."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        _sync(path.parent)  # also if an attempt before this one has removed it, and then failed


def make_folder(folder: Path) -> None:
    """Create a subfolder of the state folder if missing; may block.  Raise OSError on failure."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _sync(folder.parent)
        except BaseException:  # the next attempt makes it again, and syncs it
            with contextlib.suppress(OSError):
                folder.rmdir()
            raise


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that it is not lost, and return its new path.

    Raise OSError on failure.
    """
    for number in range(1, _ASIDE_MOST + 1):
        other = path.with_name(f"{path.name}.damaged-{number}")
        if not other.exists():
            os.rename(path, other)
            return other
    raise FileExistsError(errno.EEXIST, f"there are already {_ASIDE_MOST} damaged files")


def seal(name: str, body: Mapping[str, object]) -> bytes:
    """Return a file's content: body as JSON under name, and its CRC-32."""
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"crc32": zlib.crc32(text.encode()), name: body}).encode() + b"\n"


def unseal(path: Path, name: str, decode: Callable[[JSON], T], lost: str) -> T | None:
    """Return the result of decode for a sealed file; None if there is no file.

    Raise DamagedState if the file is invalid or decode raises; lost describes the consequence for
    the message, and the remedy.
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
