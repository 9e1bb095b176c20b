# SPDX-License-Identifier: BSD-3-Clause
"""What must outlive the target: small files in the state folder, replaced as a whole or not at all.

The folder is `[target] state_dir`, else that of systemd ($STATE_DIRECTORY), else there is none.
Whatever kills the target or the machine, a file is the old one or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


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
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedState(f"{path} cannot be read: {error.strerror}") from error
    try:
        whole = json.loads(data)
        body = whole[name]
        if zlib.crc32(json.dumps(body, sort_keys=True).encode()) != whole["crc32"]:
            raise ValueError("its CRC is wrong")
        return decode(body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedState(f"{path} is damaged ({error}): {lost}") from error
