# SPDX-License-Identifier: BSD-3-Clause
"""Limits of a namespace: commands and bytes per second."""

from __future__ import annotations

from pydantic import Field, StrictInt

from nvmf.config.base import Model
from nvmf.config.units import Size

MAX_IOPS = 10**12


class LimitsConfig(Model):
    """limits of a namespace: commands above a limit are delayed; omitted limits do not apply."""

    read_iops: StrictInt | None = Field(None, ge=1, le=MAX_IOPS)
    """Read, Compare and Verify commands per second."""
    write_iops: StrictInt | None = Field(None, ge=1, le=MAX_IOPS)
    """Write, Write Zeroes and Copy commands per second."""
    iops: StrictInt | None = Field(None, ge=1, le=MAX_IOPS)
    """Commands of both kinds per second."""
    read_bandwidth: Size | None = Field(None, ge=1)
    """Bytes per second of the commands that read."""
    write_bandwidth: Size | None = Field(None, ge=1)
    """Bytes per second of the commands that write."""
    bandwidth: Size | None = Field(None, ge=1)
    """Bytes per second of both kinds."""
    burst_ms: StrictInt = Field(100, ge=10, le=60_000)
    """Share of each limit, in milliseconds, that may be used at once after an idle period."""

    @property
    def limited(self) -> bool:
        """Whether any limit is set."""
        return any(value is not None for name, value in self if name != "burst_ms")
