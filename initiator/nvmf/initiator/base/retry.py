# SPDX-License-Identifier: BSD-3-Clause
"""Statuses after which a command is sent again, and how often."""

from __future__ import annotations

from nvmf.initiator.base.errors import ConnectionLost, QueueLost
from nvmf.spec.status import Status

MAX_RETRIES = 5
"""Retries of a command after a temporary status (nvme_core.max_retries)."""
RETRIED: frozenset[int] = frozenset(
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
    """Counts the connections that ended while a command was outstanding.

    A target that ends the connection at each attempt would otherwise get the command forever.
    """

    def __init__(self, name: str, most: int = MAX_RETRIES) -> None:
        self._name = name
        self._most = most
        self.count = 0
        """Connections that ended after the command was sent."""

    def add(self, lost: ConnectionLost) -> None:
        """Count a loss; raise ConnectionLost if there were too many."""
        self.count += isinstance(lost, QueueLost) and lost.sent
        if self.count > self._most:
            raise ConnectionLost(
                f"{self._name}: the connection ended {self.count} times under it, so it is not "
                f"sent again; the last time: {lost}"
            ) from None


def is_path_error(status: int) -> bool:
    """Return whether a different path may succeed (path related status, SCT 3h)."""
    return status & 0x700 == _PATH_RELATED
