# SPDX-License-Identifier: BSD-3-Clause
"""The contents of nvme-cli's host files: controllers to connect, and their parameters.

Parameters have the names of the long options of `nvme connect` (``keep-alive-tmo``), whatever their
names in a file, for the Python client as for the kernel's initiator.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nvmf.errors import Error
from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import OPTIONS, ConnectOptions, kind_of
from nvmf.initiator.base.transport_id import DEFAULT_PORT, TransportId
from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

Value = int | bool | str
Identity = tuple[str | None, str | None]
"""Host NQN and host identifier; None: not given."""
Parameters = Mapping[str, Value]
Kind = Literal["number", "switch", "text"]

_KINDS: dict[object, Kind] = {int: "number", float: "number", bool: "switch"}
TUNABLES: dict[str, Kind] = {
    **{
        one.key: _KINDS[kind_of(name)]
        for name, one in OPTIONS.items()
        if one.key and not one.secret
    },
    "hdr-digest": "switch",
    "data-digest": "switch",
}
"""Parameters that may differ from path to path."""
SECURITY: dict[str, Kind] = {
    "tls": "switch",
    "concat": "switch",
    "tls-key": "text",
    "tls-key-identity": "text",
    "keyring": "text",
    **{one.key: "text" for one in OPTIONS.values() if one.key and one.secret},
}
"""Parameters of a host and a subsystem, the same on all paths between the two."""
PARAMETERS = TUNABLES | SECURITY

MAX_BYTES = 1 << 20
"""Maximum size of a host file: that of nvme-cli."""
_TRUE, _FALSE = {"1", "yes", "y", "true", "t", "on"}, {"0", "no", "n", "false", "f", "off"}


class HostFileError(Error):
    """A host file cannot be used: one line for each fault."""

    problems: tuple[str, ...]
    """FILE:LINE: sentence."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One controller of a host file. Its address is checked by place()."""

    source: str
    """FILE:LINE, for messages."""
    transport: str
    traddr: str = ""
    """Empty if the transport needs none (loop)."""
    trsvcid: str | None = None
    """None: the transport's default."""
    subnqn: str = DISCOVERY_NQN
    discovery: bool = True
    """Whether it is a discovery controller."""
    host_traddr: str | None = None
    host_iface: str | None = None
    hostnqn: str | None = None
    """None: that of the machine."""
    hostid: str | None = None
    persistent: bool = False
    """Keep the discovery controller connected."""
    parameters: Parameters = field(default_factory=dict, repr=False)  # secrets may be among them
    """By long option; the initiator's defaults apply to the others."""
    found_discovery: Parameters = field(default_factory=dict, repr=False)
    """Parameters for the discovery controllers that its log refers to."""
    found_subsystem: Parameters = field(default_factory=dict, repr=False)
    """Parameters for the subsystems in its log."""

    def place(self) -> TransportId:
        """Return its address for the Python client; raise HostFileError if it has none."""
        if self.transport != "rdma":
            raise HostFileError(f"{self.source}: transport {self.transport} is not rdma")
        try:
            return TransportId(self.traddr.strip("[]"), self.trsvcid or DEFAULT_PORT, self.subnqn)
        except ValueError as error:
            raise HostFileError(f"{self.source}: {error}") from None

    def options(self, parameters: Parameters | None = None, /, **changes: object) -> ConnectOptions:
        """Return the options to connect; parameters: None, or those for entries of its log.

        changes take precedence.  Raise HostFileError if a value is out of range.
        """
        chosen = self.parameters if parameters is None else parameters
        wanted: Values = {
            name: chosen[option.key]
            for name, option in OPTIONS.items()
            if option.key in chosen and not option.kernel_only
        }
        if self.host_traddr is not None:
            wanted["host_traddr"] = self.host_traddr
        wanted |= {"hostnqn": self.hostnqn, "hostid": self.hostid}
        try:
            return ConnectOptions().with_options({**wanted, **changes})
        except ValueError as error:
            raise HostFileError(f"{self.source}: {error}") from None


def parse_value(name: str, kind: Kind, text: str) -> Value:
    """Parse the value of a parameter; raise ValueError with a sentence."""
    if kind == "text":
        return text
    if kind == "switch":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError(f"{name} must be yes or no, not {text!r}{_comment(text)}")
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, not {text!r}{_comment(text)}") from None


def _comment(text: str) -> str:
    return "; a comment must be on a line of its own" if "#" in text else ""


def check_identity(hostnqn: str | None, hostid: str | None) -> None:
    """Raise ValueError if one of them is invalid."""
    if hostnqn is not None:
        validate_nqn(hostnqn)
    if hostid is not None:
        try:
            identifier = uuid.UUID(hostid)
        except ValueError:
            raise ValueError(f"host identifier {hostid!r} is not a UUID") from None
        if not identifier.int:
            raise ValueError("a host identifier must not be all zeroes")


def read_text(path: Path) -> str:
    """Return the text of a file of UTF-8, at most 1 MiB; raise HostFileError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise HostFileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HostFileError(f"{path}:{line}: is not UTF-8 text") from None
    if len(data) > MAX_BYTES:
        raise HostFileError(f"{path}: has more than {MAX_BYTES} bytes")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise HostFileError(f"{path}:{line}: contains a NUL")
    return text
