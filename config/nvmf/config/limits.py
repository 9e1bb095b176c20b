# SPDX-License-Identifier: BSD-3-Clause
"""Limits of a namespace: commands and bytes a second."""

from __future__ import annotations

from pydantic import Field, StrictInt

from nvmf.config.base import Model
from nvmf.config.units import Size

MAX_IOPS = 10**12


class LimitsConfig(Model):
    """limits of a namespace: commands over one wait their turn; what is left out is not limited."""

    read_iops: StrictInt | None = Field(None, ge=1, le=MAX_IOPS)
    """Commands a second that read: Read, Compare, Verify."""
    write_iops: StrictInt | None = Field(None, ge=1, le=MAX_IOPS)
    """Commands a second that write: Write, Write Zeroes."""
    iops: StrictInt | None = Field(None, ge=1, le=MAX_IOPS)
    """Commands a second of both kinds together."""
    read_bandwidth: Size | None = Field(None, ge=1)
    """Bytes a second of the commands that read."""
    write_bandwidth: Size | None = Field(None, ge=1)
    """Bytes a second of the commands that write."""
    bandwidth: Size | None = Field(None, ge=1)
    """Bytes a second of both kinds together."""
    burst_ms: StrictInt = Field(100, ge=10, le=60_000)
    """So much of each limit, in milliseconds, may be used at once after a rest."""

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return any(value is not None for name, value in self if name != "burst_ms")
