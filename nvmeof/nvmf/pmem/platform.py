# SPDX-License-Identifier: BSD-3-Clause
"""The assumptions of methods about the target's platform, and the properties a target reports."""

from __future__ import annotations

from nvmf.errors import Error
from nvmf.spec.memory import Platform

FLUSH = "write-flush"
"""The method that needs a device with FLUSH on both sides."""
TAIL = "write-flush-tail"
"""The same, with a tail word behind the data by ATOMIC WRITE: for a log."""
FLUSH_METHODS = (FLUSH, TAIL)
MEMORY_METHODS = ("write-read", FLUSH, TAIL, "write-send")
"""Methods by remote memory."""
BLOCK_METHODS = ("nvme-fua", "nvme-write-flush")
"""Methods by NVMe commands."""
METHODS = (*BLOCK_METHODS, *MEMORY_METHODS)

_NEEDS = {
    "write-read": Platform.MEDIA | Platform.PLACED,
    FLUSH: Platform.MEDIA | Platform.FLUSHED,
    TAIL: Platform.MEDIA | Platform.FLUSHED | Platform.ATOMIC,
    "write-send": Platform.MEDIA | Platform.PERSISTS,
}

ASSUMPTIONS = {
    Platform.MEDIA: "the range is on media that keep their content without power",
    Platform.PLACED: "an RDMA WRITE is in the persistence domain before an RDMA READ behind it is "
    "answered",
    Platform.FLUSHED: "the range of an RDMA FLUSH is in the persistence domain before the FLUSH is "
    "answered",
    Platform.ATOMIC: "an ATOMIC WRITE of 8 bytes is carried out as a whole, and only when the "
    "FLUSHes ahead of it are complete",
    Platform.PERSISTS: "the target's processor makes a range persistent before it answers",
}
_BLOCK = "the target's controller keeps NVMe's promise for FUA and Flush"


class MethodRefused(Error, OSError):
    """An assumption of a method does not hold at this target."""


def assumptions(method: str) -> tuple[str, ...]:
    """Return a method's assumptions, a clause each."""
    if method in BLOCK_METHODS:
        return (_BLOCK, ASSUMPTIONS[Platform.MEDIA])
    return tuple(ASSUMPTIONS[fact] for fact in _NEEDS[method])


def unmet(method: str, platform: Platform) -> tuple[str, ...]:
    """Return the assumptions of a method that a target does not confirm, a clause each."""
    needed = Platform.MEDIA if method in BLOCK_METHODS else _NEEDS[method]
    return tuple(ASSUMPTIONS[fact] for fact in needed & ~platform)
