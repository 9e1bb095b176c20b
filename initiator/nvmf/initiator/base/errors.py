# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions of the client.

NvmeError: the controller completed a command with an error status.  ConnectionLost: the connection
ended.  ConnectError, of the engine: no connection could be made.  str() is a sentence: what was
tried, what came back by name, what to do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from nvmf.errors import Error
from nvmf.spec.fabrics import ConnectInvalid
from nvmf.spec.status import NvmStatus, Status, StatusError

__all__ = [
    "AuthenticationError",
    "ConnectError",
    "ConnectionLost",
    "NvmeError",
    "OutcomeUnknown",
    "QueueLost",
]

if TYPE_CHECKING:
    from nvmf.engine import ConnectError


def __getattr__(name: str) -> object:
    """Load ConnectError at the first access: it belongs to the engine, which not all users need."""
    if name != "ConnectError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("nvmf.engine").ConnectError


_HINTS: dict[int, str] = {
    Status.LBA_OUT_OF_RANGE: "the range extends past the end of the namespace (see id-ns)",
    Status.INVALID_NAMESPACE_OR_FORMAT: "list-ns shows the active namespaces",
    Status.INTERNAL_ERROR: "the target's log has the reason",
    Status.INVALID_LOG_PAGE: (
        "the controller has no log page with this identifier (70h, the discovery log, is only in "
        "discovery subsystems)"
    ),
    Status.UNRECOVERED_READ_ERROR: (
        "blocks in the range are marked invalid (write-uncor), or lost by the storage behind the "
        "namespace: writing makes them readable"
    ),
    Status.COMPARE_FAILURE: "the data on the namespace differs from the expected data",
    Status.CAPACITY_EXCEEDED: "the storage behind the namespace is full",
    Status.RESERVATION_CONFLICT: "a reservation, or a different key, prevents it: see resv-report",
    Status.NAMESPACE_WRITE_PROTECTED: "the namespace is read-only or write protected on the target",
    Status.CONNECT_INVALID_HOST: "the target does not admit this host NQN to the subsystem",
    Status.AUTHENTICATION_REQUIRED: (
        "the target asks for in-band authentication: give this host's key (--dhchap-secret)"
    ),
    Status.CONTROLLER_BUSY: "the target has no controller left; try again later",
}


def status_hint(status: int) -> str:
    """Return what to do about a status; empty if its name says enough."""
    return _HINTS.get(status, "")


class NvmeError(StatusError):
    """The controller completed a command with an error status."""

    command: str
    """The name of the command."""
    nsid: int | None
    lba: int | None
    """The first logical block, for commands that have one."""
    blocks: int | None
    repeated: bool
    """A connection had ended during the command, which was sent again: it may have been done."""

    def __init__(
        self,
        status: int,
        detail: str = "",
        *,
        dnr: bool = True,
        dw0: int = 0,
        io: bool = False,
    ) -> None:
        super().__init__(status, detail, dnr=dnr, dw0=dw0, io=io)
        self.command = ""
        self.nsid = self.lba = self.blocks = None
        self.repeated = False

    @classmethod
    def of(
        cls,
        command: str,
        status: int,
        *,
        dw0: int = 0,
        io: bool = False,
        nsid: int | None = None,
        lba: int | None = None,
        blocks: int | None = None,
    ) -> NvmeError:
        """Return the error for the status field of a completion."""
        about = command
        if blocks is not None:
            about += f" of {blocks} block{'' if blocks == 1 else 's'} at LBA {lba}"
        if nsid is not None:
            about += f" {'of' if blocks is None else 'in'} namespace {nsid}"
        error = cls.from_wire(status, f"{about} failed", io=io, dw0=dw0)
        error.command = command
        error.nsid, error.lba, error.blocks = nsid, lba, blocks
        return error

    def __str__(self) -> str:
        text = super().__str__()
        if self.io and self.status in set(NvmStatus):
            return text
        if self.status == Status.CONNECT_INVALID_PARAMETERS and self.command == "Connect":
            invalid = ConnectInvalid.decode(self.dw0)
            text += f", about {invalid}"
            if "SUBNQN" in str(invalid):
                text += "; the target offers no subsystem with this NQN to this host: try discover"
            return text
        hint = status_hint(self.status)
        return f"{text}; {hint}" if hint else text


class ConnectionLost(Error, ConnectionError):
    """The controller is closed, or was not reachable within ctrl_loss_tmo."""


class AuthenticationError(ConnectionLost):
    """The controller or this host could not be authenticated."""


class OutcomeUnknown(ConnectionLost):
    """The connection ended during a command that must not be sent twice: it may have been done."""


class QueueLost(ConnectionLost):
    """The queue's connection ended during the command, which may be sent again on a new one."""

    sent = False
    """The command had been sent."""
