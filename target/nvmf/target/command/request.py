# SPDX-License-Identifier: BSD-3-Clause
"""The argument and the result of command handlers."""

from __future__ import annotations

from dataclasses import dataclass

from nvmf.spec.sgl import SglType
from nvmf.spec.sqe import At, Sqe
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.engine import Own

PSDT_SGL = 1


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion of a command."""

    dw0: int = 0
    dw1: int = 0
    data: bytes = b""
    """Sent to the host before the response."""
    status: int = 0
    """SCT << 8 | SC, with DNR."""


@dataclass(frozen=True, slots=True)
class Request:
    """A command, as passed to a handler."""

    sqe: Sqe
    now: float
    """Seconds, monotonic."""
    data: bytes = b""
    """Data sent by the host with the command."""
    token: Own = None
    """Identifies the command if it completes later (such as asynchronous event requests)."""


def transfer_length(request: Request) -> int | None:
    """Return the bytes that the command's SGL describes; None if only the engine knows."""
    sgl = request.sqe.sgl
    if sgl.keyed or sgl.type == SglType.IN_CAPSULE:
        return sgl.length
    return len(request.data) if request.data else None


def expect_length(request: Request, length: int) -> None:
    """Raise Data SGL Length Invalid if the SGL does not describe exactly this many bytes."""
    found = transfer_length(request)
    if found is not None and found != length:
        raise StatusError(
            Status.SGL_DATA_LENGTH_INVALID, f"SGL of {found} bytes; the command transfers {length}"
        )


def expect_data(request: Request, length: int) -> bytes:
    """Return the host's data; raise Data SGL Length Invalid if not exactly this many bytes."""
    expect_length(request, length)
    if len(request.data) != length:
        raise StatusError(
            Status.SGL_DATA_LENGTH_INVALID, f"{len(request.data)} bytes of data, not {length}"
        )
    return request.data


def check_flags(sqe: Sqe) -> None:
    """Raise Invalid Field if the command is fused, or PSDT does not select SGLs."""
    if sqe.fuse:
        raise StatusError(
            Status.INVALID_FIELD, f"fused operation {sqe.fuse} is not supported", location=At.FUSE
        )
    if sqe.psdt != PSDT_SGL:
        raise StatusError(
            Status.INVALID_FIELD, f"PSDT {sqe.psdt}; fabrics require 1", location=At.PSDT
        )
