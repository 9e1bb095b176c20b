# SPDX-License-Identifier: BSD-3-Clause
"""The location of a controller: a transport ID, and its form as a URL.

    nvme+rdma://HOST[:PORT][/NQN][?OPTION=VALUE&...]

HOST is a name or an address, IPv6 in brackets. PORT defaults to 4420, the NQN to that of the
discovery subsystem. Options are those of ConnectOptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import parse_options
from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

SCHEME = "nvme+rdma"
DEFAULT_PORT = "4420"
Embedded = Literal["iwarp", "roce"]
_PORT = re.compile("[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class TransportId:
    """Address of a subsystem's port, and the subsystem; raises ValueError if invalid."""

    traddr: str
    """Host name or address, IPv6 without brackets."""
    trsvcid: str = DEFAULT_PORT
    """Port, decimal."""
    subnqn: str = DISCOVERY_NQN
    options: Values = field(default_factory=dict, hash=False)
    """Options that the URL carries."""
    embedded: Embedded | None = field(default=None, compare=False)
    """The embedded device with the port's RDMA protocol, if a discovery record names that."""

    def __post_init__(self) -> None:
        if not self.traddr:
            raise ValueError("a transport id needs a host address")
        if not self.traddr.isprintable() or " " in self.traddr:
            raise ValueError(f"{self.traddr[:64]!a} is not a name or address of a host")
        if not _PORT.fullmatch(self.trsvcid) or not 0 < int(self.trsvcid) < 65536:
            raise ValueError(f"a port is 1 to 65535, not {self.trsvcid!r}")
        validate_nqn(self.subnqn)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse a URL; raise ValueError with a sentence if it is invalid."""
        try:
            split = urlsplit(url)
        except ValueError as error:
            raise ValueError(f"{url!r}: {error}") from None
        if split.scheme != SCHEME:
            raise ValueError(f"{url!r} is not of the form {SCHEME}://HOST:PORT/NQN")
        if split.username is not None or split.password is not None or split.fragment:
            raise ValueError(f"{url!r}: a user, a password or a fragment means nothing here")
        try:
            host, port = split.hostname, split.port
        except ValueError:
            raise ValueError(f"{url!r}: a port is 1 to 65535") from None
        if not host:
            raise ValueError(f"{url!r} has no host")
        try:
            pairs = parse_qsl(split.query, keep_blank_values=True, strict_parsing=bool(split.query))
        except ValueError:
            raise ValueError(f"{url!r}: options are written NAME=VALUE&NAME=VALUE") from None
        return cls(
            unquote(host),
            DEFAULT_PORT if port is None else str(port),
            unquote(split.path.removeprefix("/")) or DISCOVERY_NQN,
            parse_options(dict(pairs)),
        )

    @classmethod
    def of(cls, where: str | TransportId) -> TransportId:
        """Return the transport ID itself, or that of a URL; raise TypeError for anything else."""
        if isinstance(where, str):
            return cls.parse(where)
        if not isinstance(where, TransportId):
            raise TypeError(f"expected a URL or a TransportId, not {where!r}")
        return where

    @property
    def is_discovery(self) -> bool:
        """Whether the subsystem is the discovery subsystem."""
        return self.subnqn == DISCOVERY_NQN

    @property
    def endpoint(self) -> str:
        """HOST:PORT, with brackets for IPv6."""
        host = f"[{self.traddr}]" if ":" in self.traddr else self.traddr
        return f"{host}:{self.trsvcid}"

    def __str__(self) -> str:
        host = self.traddr.replace("%", "%25")
        host = f"[{host}]" if ":" in host else host
        return f"{SCHEME}://{host}:{self.trsvcid}/{quote(self.subnqn, safe=':')}"
