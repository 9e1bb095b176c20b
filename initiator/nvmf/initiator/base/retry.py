# SPDX-License-Identifier: BSD-3-Clause
"""Which statuses may pass: the command is tried again, or another path does it."""

from __future__ import annotations

from nvmf.initiator.base.errors import ConnectionLost, QueueLost
from nvmf.spec.status import Status

MAX_RETRIES = 5
"""Of a command that the controller ended with a status that may pass (nvme_core.max_retries)."""
RETRIED = frozenset(
    {
        Status.ABORT_REQUESTED,
        Status.ABORTED_SQ_DELETION,
        Status.COMMAND_INTERRUPTED,
        Status.TRANSIENT_TRANSPORT_ERROR,
        Status.ADMIN_MEDIA_NOT_READY,
        Status.NAMESPACE_NOT_READY,
        Status.INTERNAL_PATH_ERROR,
        Status.ANA_TRANSITION,
        Status.CONTROLLER_PATHING_ERROR,
        Status.HOST_PATHING_ERROR,
        Status.ABORTED_BY_HOST,
    }
)
_PATH_RELATED = 0x300


class Losses:
    """How often the connection ended under a command: a target that always ends it would have it
    sent for ever, each time with a connection that is made anew in time."""

    def __init__(self, name: str, most: int = MAX_RETRIES) -> None:
        self._name = name
        self._most = most
        self._count = 0

    def add(self, lost: ConnectionLost) -> None:
        """One more; ConnectionLost where that is too often."""
        self._count += isinstance(lost, QueueLost) and lost.sent
        if self._count > self._most:
            raise ConnectionLost(
                f"{self._name}: the connection ended {self._count} times under it, so it is not "
                f"sent again; the last time: {lost}"
            ) from None


def is_path_error(status: int) -> bool:
    """Whether another path may do what this one did not (SCT 3h)."""
    return status & 0x700 == _PATH_RELATED
