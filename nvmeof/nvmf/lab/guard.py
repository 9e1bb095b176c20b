# SPDX-License-Identifier: BSD-3-Clause
"""Protects data: a system is written only if it was created for the run, is empty, or was named."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from nvmf.config.units import format_size
from nvmf.lab.errors import LabError

READ_AT_MOST = 1 << 30
"""Maximum bytes that are read to show that there is no data; a larger system must be named."""
_CHUNK = 1 << 20


def why_not_empty(read: Callable[[int, int], bytes], size: int) -> str | None:
    """Return why a system cannot be shown to be empty, or None if every byte is zero.

    read: returns N bytes from an offset.  Probes come first: data are usually found at once.
    """
    probes = [(0, min(_CHUNK, size))]
    probes += [(size * n // 64 // 4096 * 4096, 4096) for n in range(1, 64)]
    for offset, length in probes:
        length = min(length, size - offset)
        if length > 0 and any(read(offset, length)):
            return f"it has data at offset {offset}"
    if size > READ_AT_MOST:
        return (
            f"it has {format_size(size)}, and only {format_size(READ_AT_MOST)} would be read to "
            "show that it has no data"
        )
    for offset in range(0, size, _CHUNK):
        if any(read(offset, min(_CHUNK, size - offset))):
            return f"it has data at or after offset {offset}"
    return None


def why_not_file(path: Path) -> str | None:
    """Return why a file or block device cannot be shown to be empty, or None.

    Raises:
        LabError: It cannot be opened, or is in use.
    """
    try:
        status = path.stat()
        device = stat.S_ISBLK(status.st_mode)
        if not device and not stat.S_ISREG(status.st_mode):
            raise LabError(f"{path} is neither a regular file nor a block device")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_EXCL if device else 0))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise LabError(
                f"{path} is in use, by a mounted file system or a different device: it is never "
                "written to"
            ) from None
        raise LabError(f"cannot open {path}: {error.strerror}") from None
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if device:
            return why_not_empty(lambda offset, n: os.pread(descriptor, n, offset), size)
        seen = 0
        for begin, end in _extents(descriptor, size):
            for offset in range(begin, end, _CHUNK):
                if any(os.pread(descriptor, min(_CHUNK, end - offset), offset)):
                    return f"it has data at or after offset {offset}"
                seen += _CHUNK
                if seen > READ_AT_MOST:
                    return f"more than {format_size(READ_AT_MOST)} would have to be read"
        return None
    finally:
        os.close(descriptor)


def _extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a file that are not holes."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return
            raise
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end


def refuse(name: str, what: str, why: str) -> LabError:
    """Return the error of a system that must not be written to."""
    return LabError(
        f"system {name}: {what} is not written to, because {why}. To destroy its data, name it: "
        f'--overwrite {what}, or overwrite = "{what}" in the description'
    )
