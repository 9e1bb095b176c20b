# SPDX-License-Identifier: BSD-3-Clause
"""The exception of the kernel's initiator: a sentence, and the values that the kernel reported."""

from __future__ import annotations

import errno as errnos

from nvmf.errors import Error


class KernelError(Error, ConnectionError):
    """The kernel could not connect; str() is a sentence that says what to try."""

    reason: str
    """The text of the exception: a sentence."""
    errno: int | None
    """errno of the system call, or None."""
    status: int | None
    """The NVMe status (SCT and SC), if the controller gave one."""
    cm_status: int | None
    """The reject status of NVMe-oF in the CM's private data, if there was one."""
    log: list[str]
    """The lines of the kernel's log, unchanged."""

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
    """Return the name of an errno: ECONNREFUSED for 111."""
    return errnos.errorcode.get(abs(number), f"error {abs(number)}")
