# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel's initiator raises: a sentence, with what the kernel gave beside it."""

from __future__ import annotations

import errno as errnos


class KernelError(ConnectionError):
    """The kernel did not do what was asked: str() is a sentence with what to try."""

    reason: str
    """The sentence."""
    errno: int | None
    """What the system call gave, or None."""
    status: int | None
    """The NVMe status (SCT and SC), where the controller gave one."""
    cm_status: int | None
    """The reject status of NVMe-oF in the CM's private data, where there was one."""
    log: list[str]
    """What the kernel's log said, as it was."""

    def __init__(
        self,
        reason: str,
        *,
        errno: int | None = None,
        status: int | None = None,
        cm_status: int | None = None,
        log: list[str] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.errno = errno
        self.status = status
        self.cm_status = cm_status
        self.log = log or []

    def __str__(self) -> str:
        return self.reason


def errno_name(number: int) -> str:
    """ECONNREFUSED for 111."""
    return errnos.errorcode.get(abs(number), f"error {abs(number)}")
