# SPDX-License-Identifier: BSD-3-Clause
"""Files and pipes with the data of namespaces, to and from registered memory."""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import BinaryIO

from nvmf.cli.base import CliError, UsageError


def open_data(path: str, mode: str) -> BinaryIO:
    """Open a file, or stdin or stdout for "-"; raise CliError on failure.

    Unbuffered: closing a buffered pipe waits for the thread that reads it, even after an interrupt.
    """
    reading = mode == "rb"
    if path == "-":
        if not reading and sys.stdout.isatty():
            raise UsageError(
                "cannot copy blocks from or to a terminal: use a file with -d, or a pipe"
            )
        standard = sys.stdin if reading else sys.stdout
        return os.fdopen(os.dup(standard.fileno()), mode, buffering=0)  # type: ignore[return-value]
    try:
        return open(path, mode, buffering=0)  # type: ignore[return-value]
    except OSError as error:
        raise CliError(f"cannot open {path}: {error.strerror}") from None


def length_of(source: BinaryIO) -> int | None:
    """Return the bytes of a regular file; None for others, whose size is unknown."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def get_data(source: BinaryIO, view: memoryview, most: int) -> int:
    """Fill the first most bytes of the view, as far as the source has data."""
    done = 0
    while done < most:
        try:
            with view[done:most] as part:
                count = source.readinto(part)  # type: ignore[attr-defined]
            if count is None:  # it does not block, and has no data yet
                _wait(source, select.POLLIN)
                continue
        except OSError as error:
            name = source.name if isinstance(source.name, str) else "stdin"
            raise CliError(f"cannot read {name}: {error.strerror}") from None
        if not count:
            break
        done += int(count)
    return done


def take_data(source: BinaryIO, most: int) -> bytes:
    """Return the first most bytes of the source, or all that it has."""
    data = bytearray(most)
    with memoryview(data) as view:
        count = get_data(source, view, most)
    return bytes(data[:count])


def put_data(out: BinaryIO, view: memoryview, count: int) -> None:
    """Write the first count bytes of the view, without keeping a slice."""
    try:
        done = 0
        while done < count:
            with view[done:count] as part:
                written: int | None = out.write(part)
            if written is None:  # it does not block, and has no room yet
                _wait(out, select.POLLOUT)
            else:
                done += written
    except BrokenPipeError:
        raise
    except OSError as error:
        name = out.name if isinstance(out.name, str) else "stdout"
        raise CliError(f"cannot write to {name}: {error.strerror}") from None


def _wait(file: BinaryIO, event: int) -> None:
    """Wait for a file that another program has set to non-blocking mode."""
    waiting = select.poll()
    waiting.register(file.fileno(), event)
    waiting.poll()
