# SPDX-License-Identifier: BSD-3-Clause
"""What a handler is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from nvmf.spec.sgl import SglType
from nvmf.spec.sqe import At, Sqe
from nvmf.spec.status import Status, StatusError

PSDT_SGL = 1


@dataclass(frozen=True, slots=True)
class Completion:
    """What ends a command."""

    dw0: int = 0
    dw1: int = 0
    data: bytes = b""
    """Goes to the host before the response."""
    status: int = 0
    """SCT << 8 | SC, with DNR."""


@dataclass(frozen=True, slots=True)
class Request:
    """A command, as a handler sees it."""

    sqe: Sqe
    now: float
    """Seconds, monotonic."""
    data: bytes = b""
    """What the host sent with it."""
    token: object = None
    """Names the command where its completion comes later (asynchronous events)."""


def transfer_length(request: Request) -> int | None:
    """Bytes that the command's SGL describes; None where only the engine knows."""
    sgl = request.sqe.sgl
    if sgl.keyed or sgl.type == SglType.IN_CAPSULE:
        return sgl.length
    return len(request.data) if request.data else None


def expect_length(request: Request, length: int) -> None:
    """Data SGL Length Invalid where the SGL does not describe exactly this many bytes."""
    found = transfer_length(request)
    if found is not None and found != length:
        raise StatusError(
            Status.SGL_DATA_LENGTH_INVALID, f"SGL of {found} bytes where {length} are transferred"
        )


def expect_data(request: Request, length: int) -> bytes:
    """The host's data; Data SGL Length Invalid where it is not exactly this many bytes."""
    expect_length(request, length)
    if len(request.data) != length:
        raise StatusError(
            Status.SGL_DATA_LENGTH_INVALID, f"{len(request.data)} bytes of data, not {length}"
        )
    return request.data


def check_flags(sqe: Sqe) -> None:
    """Invalid Field where the command is fused, or does not say that it uses SGLs."""
    if sqe.fuse:
        raise StatusError(
            Status.INVALID_FIELD, f"fused operation {sqe.fuse} is not supported", location=At.FUSE
        )
    if sqe.psdt != PSDT_SGL:
        raise StatusError(
            Status.INVALID_FIELD, f"PSDT {sqe.psdt} where fabrics need 1", location=At.PSDT
        )
