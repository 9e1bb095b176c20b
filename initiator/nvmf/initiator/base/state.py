# SPDX-License-Identifier: BSD-3-Clause
"""Where a controller is in its life, whoever moves its data."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a controller is in its life."""

    LIVE = "live"
    RECONNECTING = "reconnecting"
    LOST = "lost"
    """Not back within ctrl_loss_tmo."""
    CLOSED = "closed"
