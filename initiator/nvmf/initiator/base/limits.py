# SPDX-License-Identifier: BSD-3-Clause
"""Limits that apply in several rooms."""

from __future__ import annotations

LARGEST = 256 << 10
"""Bytes of the pool's largest buffers: no block is larger, and no piece that is copied."""
MAX_TRANSFER = 4 << 20
"""Bytes of a command where the controller has no limit."""
TRIES = 10
"""How often a log that changes under the reader is read again."""
