# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the configuration for services of a target other than serving hosts."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

from pydantic import Field, StrictBool, StrictInt, field_validator

from nvmf.config.base import Model
from nvmf.config.units import FilePath

LABEL = r"^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)?$"
SOCKET_PATH_MOST = 100
"""sun_path has 108 bytes; the suffix of the socket's temporary name needs some of them."""


class RpcConfig(Model):
    """[rpc]: the socket for administration of a running target; see nvmeof target ls."""

    enabled: StrictBool = True
    """Whether there is one."""
    socket: FilePath | None = None
    """Its path; default: target.sock in $RUNTIME_DIRECTORY, or /run/nvmeof/target.sock for root."""

    @field_validator("socket")
    @classmethod
    def _socket(cls, value: Path | None) -> Path | None:
        if value is not None and len(os.fsencode(value)) > SOCKET_PATH_MOST:
            raise ValueError(f"the path of a socket must have at most {SOCKET_PATH_MOST} bytes")
        return value


class MdnsConfig(Model):
    """[mdns]: announcement of the discovery service on the local network."""

    enabled: StrictBool = False
    """Whether it is announced."""
    name: str = Field("", max_length=40, pattern=LABEL)
    """Name of this target shown to users; default: the machine's name."""


class MetricsConfig(Model):
    """[metrics]: counters for Prometheus, over HTTP at /metrics."""

    enabled: StrictBool = False
    """Whether they can be read."""
    address: str = "127.0.0.1"
    """A numeric IPv4 or IPv6 address.  There is no access control: all who can connect can read."""
    port: StrictInt = Field(9421, ge=0, le=65535)
    """Port; 0 selects a free port."""
    hosts: StrictInt = Field(128, ge=0, le=65535)
    """Number of hosts with labels of their own; the rest are counted together as "other"."""

    @field_validator("address")
    @classmethod
    def _address(cls, value: str) -> str:
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a numeric IPv4 or IPv6 address") from None
