# SPDX-License-Identifier: BSD-3-Clause
"""Whether a connection request is accepted, and with what; every reject reason is here."""

from __future__ import annotations

from dataclasses import dataclass

from nvmf.spec.cm import CmRejectError, CmRequest, CmStatus
from nvmf.spec.status import StatusError

ADMIN_QUEUE_DEPTH = 128
"""Entries of an admin queue at most; a host is told so by the discovery log (ASQSZ)."""


@dataclass(frozen=True, slots=True)
class CmLimits:
    """What the target can give to one connection."""

    queue_size: int
    """Entries of an I/O queue at most: CAP.MQES + 1 of the largest subsystem."""
    io_queues: int
    """The highest queue identifier."""
    initiator_depth: int = 32
    """RDMA READs that the target has outstanding at most."""
    free_queues: int = 1
    """Connections that may still be accepted."""


@dataclass(frozen=True, slots=True)
class CmAccept:
    """With what a connection is accepted."""

    qid: int
    recv_depth: int
    """Capsules that the host may have outstanding, and the CRQSIZE of the reply."""
    send_depth: int
    """Responses that the host can take."""
    initiator_depth: int
    """RDMA READs that the target may have outstanding."""
    cntlid: int
    """What the host says of an I/O queue; 0 where it is too old to say it."""


def decide(private_data: bytes, initiator_depth: int, limits: CmLimits) -> CmAccept:
    """Judge the private data of a REQ (RDMA Transport 1.0, 3.1).

    initiator_depth: as it arrives, RDMA READs that the host lets the target have outstanding.
    Raises CmRejectError.  A host's ORD is never refused: hosts read nothing from a target, so
    that the answer is that it may have none outstanding.
    """
    try:
        request = CmRequest.decode(private_data)
    except StatusError:
        raise CmRejectError(
            CmStatus.INVALID_LENGTH,
            f"private data of {len(private_data)} bytes, at least {CmRequest.SIZE} are needed",
        ) from None
    if request.recfmt != 0:
        raise CmRejectError(CmStatus.INVALID_RECFMT, f"record format {request.recfmt}, not 0")
    if request.qid > limits.io_queues:
        raise CmRejectError(
            CmStatus.INVALID_QID, f"queue {request.qid}, the highest is {limits.io_queues}"
        )
    most = limits.queue_size if request.qid else ADMIN_QUEUE_DEPTH
    if not 2 <= request.hsqsize + 1 <= most:
        raise CmRejectError(
            CmStatus.INVALID_HSQSIZE,
            f"queue of {request.hsqsize + 1} entries, 2 to {most} are possible",
        )
    if request.hrqsize == 0:
        raise CmRejectError(CmStatus.INVALID_HRQSIZE, "the host can take no response")
    if initiator_depth == 0:
        raise CmRejectError(CmStatus.INVALID_IRD, "the host lets the target read nothing")
    if limits.free_queues < 1:
        raise CmRejectError(CmStatus.NO_RESOURCES, "all connections are in use")
    return CmAccept(
        qid=request.qid,
        recv_depth=request.hsqsize + 1,
        send_depth=min(request.hrqsize, most),
        initiator_depth=min(initiator_depth, limits.initiator_depth),
        cntlid=request.cntlid,
    )
