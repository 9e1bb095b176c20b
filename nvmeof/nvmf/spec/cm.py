# SPDX-License-Identifier: BSD-3-Clause
"""RDMA-CM private data of NVMe-oF (RDMA Transport 1.0, 3.1): REQ, REP and REJ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nvmf.errors import Error
from nvmf.spec.layout import Structure, u16
from nvmf.spec.status import Named


class CmStatus(Named):
    """STS of a reject."""

    INVALID_LENGTH = 0x01, "Invalid Private Data Length"
    INVALID_RECFMT = 0x02, "Invalid Private Data Record Format"
    INVALID_QID = 0x03, "Invalid Queue ID"
    INVALID_HSQSIZE = 0x04, "Invalid Host SQ Size"
    INVALID_HRQSIZE = 0x05, "Invalid Host RQ Size"
    NO_RESOURCES = 0x06, "No Resources"
    INVALID_IRD = 0x07, "Invalid Initiator Depth (IRD)"
    INVALID_ORD = 0x08, "Invalid Responder Resources (ORD)"


def cm_status_name(sts: int) -> str:
    """Return the name of a reject status."""
    try:
        return CmStatus(sts).title
    except ValueError:
        return f"status {sts:#x}"


@dataclass(frozen=True, slots=True)
class CmRequest(Structure):
    """Private data of a REQ; received data may be longer, zero-padded by the transport."""

    SIZE = 32
    recfmt: Annotated[int, u16(0)] = 0
    qid: Annotated[int, u16(2)] = 0
    hrqsize: Annotated[int, u16(4)] = 0
    """Responses that the host can receive: entries."""
    hsqsize: Annotated[int, u16(6)] = 0
    """Capsules that the host may have outstanding: entries, 0's based."""
    cntlid: Annotated[int, u16(8)] = 0
    """Set for I/O queues; older hosts leave it 0."""


@dataclass(frozen=True, slots=True)
class CmReply(Structure):
    """Private data of a REP."""

    SIZE = 32
    recfmt: Annotated[int, u16(0)] = 0
    crqsize: Annotated[int, u16(2)] = 0
    """Capsules that the controller can receive: entries."""


@dataclass(frozen=True, slots=True)
class CmReject(Structure):
    """Private data of a REJ."""

    SIZE = 4
    recfmt: Annotated[int, u16(0)] = 0
    sts: Annotated[int, u16(2)] = 0


class CmRejectError(Error):
    """A connection request is rejected."""

    status: CmStatus
    detail: str
    """Text for logs and users; never sent."""

    def __init__(self, status: CmStatus, detail: str) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.detail}: {self.status.title} (sts {self.status:d})"

    def encode(self) -> bytes:
        """Return the private data of the REJ."""
        return CmReject(0, int(self.status)).encode()
