# SPDX-License-Identifier: BSD-3-Clause
"""Run a program whose file I/O fails beyond an offset, by a seccomp filter (x86-64).

``python faulty.py ERRNO OFFSET COMMAND...``: pread, pwrite and their vector kinds at OFFSET or
beyond (below 4 GiB) fail with ERRNO, OFFSET 0 makes fsync and fdatasync fail instead; io_uring is
not permitted, since it would go around the filter.  No privilege is needed.
"""

import ctypes
import os
import platform
import struct
import sys

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_IO_URING_SETUP, _EPERM = 425, 1
_AT_OFFSET = (17, 18, 295, 296, 327, 328)
"""pread64, pwrite64, preadv, pwritev, preadv2, pwritev2: the offset is the fourth argument."""
_SYNC = (74, 75, 277)
_ARGUMENT = 16 + 3 * 8

SUPPORTED = platform.machine() == "x86_64"


def _instruction(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def program(error: int, offset: int) -> bytes:
    """The filter."""
    numbers = _AT_OFFSET if offset else _SYNC
    lines = [
        _instruction(_LOAD, 0, 0, 0),
        _instruction(_JUMP_EQUAL, 0, 1, _IO_URING_SETUP),
        _instruction(_RETURN, 0, 0, _ERRNO | _EPERM),
    ]
    for index, number in enumerate(numbers):
        lines.append(_instruction(_JUMP_EQUAL, len(numbers) - index, 0, number))
    lines.append(_instruction(_RETURN, 0, 0, _ALLOW))
    if offset:
        lines.append(_instruction(_LOAD, 0, 0, _ARGUMENT))
        lines.append(_instruction(_JUMP_AT_LEAST, 1, 0, offset))
        lines.append(_instruction(_RETURN, 0, 0, _ALLOW))
    lines.append(_instruction(_RETURN, 0, 0, _ERRNO | error))
    return b"".join(lines)


def install(code: bytes) -> None:
    """Filter this process from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code)
    head = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(head), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


if __name__ == "__main__":
    install(program(int(sys.argv[1]), int(sys.argv[2])))
    os.execvp(sys.argv[3], sys.argv[3:])
