# SPDX-License-Identifier: BSD-3-Clause
"""A program for the guest: the block layer's persistent reservations, and their effect on I/O.

Standard input is a JSON list of operations, each a list of its name, a device and numbers;
standard output is a JSON list of the results: "done", the name of an errno, or "conflict" if an
ioctl reports one.

    ["register", device, key that is registered or 0, new key, flags]
    ["reserve", device, key, type]             ["release", device, key, type]
    ["preempt", device, own key, key to preempt, type]        ["preempt_abort", ...]
    ["clear", device, key]
    ["read", device]                           ["write", device]

The ioctls are those of Linux's <linux/pr.h>.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import struct
import sys

SIZE = 4096
_CONFLICT = 0x18
"""PR_STS_RESERVATION_CONFLICT."""
# Name to number and structure of the ioctl; missing last fields are 0.
_IOCTLS = {
    "register": (200, "<QQII"),
    "reserve": (201, "<QII"),
    "release": (202, "<QII"),
    "preempt": (203, "<QQII"),
    "preempt_abort": (204, "<QQII"),
    "clear": (205, "<QII"),
}


def _ioctl(descriptor: int, name: str, *values: int) -> str:
    number, layout = _IOCTLS[name]
    fields = len(struct.unpack(layout, bytes(struct.calcsize(layout))))
    argument = bytearray(struct.pack(layout, *values, *[0] * (fields - len(values))))
    request = 1 << 30 | len(argument) << 16 | ord("p") << 8 | number
    status = fcntl.ioctl(descriptor, request, argument)
    return {0: "done", _CONFLICT: "conflict"}.get(status, f"status {status:#x}")


def perform(name: str, device: str, *values: int) -> str:
    """Execute one operation, without the page cache."""
    try:
        descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
        try:
            with mmap.mmap(-1, SIZE) as page:
                if name == "read":
                    os.preadv(descriptor, [page], 0)
                elif name == "write":
                    os.pwritev(descriptor, [page], 0)
                else:
                    return _ioctl(descriptor, name, *values)
        finally:
            os.close(descriptor)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


if __name__ == "__main__":
    json.dump([perform(*operation) for operation in json.load(sys.stdin)], sys.stdout)
