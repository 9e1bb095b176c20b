# SPDX-License-Identifier: BSD-3-Clause
"""Limits that apply in several rooms."""

from __future__ import annotations

LARGEST = 256 << 10
"""Bytes of the pool's largest buffers: the maximum of a block, and of a piece that is copied."""
MAX_TRANSFER = 4 << 20
"""Maximum bytes of a command if the controller has no limit."""
TRIES = 10
"""How often a log that changes while it is read is read again."""
