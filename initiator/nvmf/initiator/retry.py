# SPDX-License-Identifier: BSD-3-Clause
"""Which statuses may pass: the command is tried again, or another path does it."""

from __future__ import annotations

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


def is_path_error(status: int) -> bool:
    """Whether another path may do what this one did not (SCT 3h)."""
    return status & 0x700 == _PATH_RELATED
