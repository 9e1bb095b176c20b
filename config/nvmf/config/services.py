# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the configuration about what a target does beside serving hosts."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

from pydantic import Field, StrictBool, StrictInt, field_validator

from nvmf.config.base import Model
from nvmf.config.units import FilePath

LABEL = r"^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)?$"
SOCKET_PATH_MOST = 100
"""sun_path has 108 bytes, of which the socket's temporary name takes some."""


class RpcConfig(Model):
    """[rpc]: the socket for administration while it runs; see nvmeof target ls."""

    enabled: StrictBool = True
    """Whether there is one."""
    socket: FilePath | None = None
    """Its path; else target.sock in $RUNTIME_DIRECTORY, or /run/nvmeof/target.sock for root."""

    @field_validator("socket")
    @classmethod
    def _socket(cls, value: Path | None) -> Path | None:
        if value is not None and len(os.fsencode(value)) > SOCKET_PATH_MOST:
            raise ValueError(f"a path of a socket has at most {SOCKET_PATH_MOST} bytes")
        return value


class MdnsConfig(Model):
    """[mdns]: announcing the discovery service on the local network."""

    enabled: StrictBool = False
    """Whether it is announced."""
    name: str = Field("", max_length=40, pattern=LABEL)
    """Name of this target, for people; that of the machine where left out."""


class MetricsConfig(Model):
    """[metrics]: counters for Prometheus, by HTTP at /metrics."""

    enabled: StrictBool = False
    """Whether they can be read."""
    address: str = "127.0.0.1"
    """A numeric IPv4 or IPv6 address.  Whoever reaches it can read: there is no access control."""
    port: StrictInt = Field(9421, ge=0, le=65535)
    """Port; 0 takes a free one."""
    hosts: StrictInt = Field(128, ge=0, le=65535)
    """Hosts that have labels of their own; the rest are counted together, as "other"."""

    @field_validator("address")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a numeric IPv4 or IPv6 address") from None
