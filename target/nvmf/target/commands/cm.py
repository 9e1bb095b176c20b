# SPDX-License-Identifier: BSD-3-Clause
"""Accepts or rejects connection requests, with parameters or a reject reason."""

from __future__ import annotations

from dataclasses import dataclass

from nvmf.spec.cm import CmRejectError, CmRequest, CmStatus
from nvmf.spec.status import StatusError

ADMIN_QUEUE_DEPTH = 128
"""Maximum entries of an admin queue, reported in the discovery log (ASQSZ)."""


@dataclass(frozen=True, slots=True)
class CmLimits:
    """The limits for one connection."""

    queue_size: int
    """Maximum entries of an I/O queue: the largest CAP.MQES + 1 of all subsystems."""
    io_queues: int
    """The highest queue identifier."""
    initiator_depth: int = 32
    """Maximum outstanding RDMA READs of the target."""
    free_queues: int = 1
    """Number of further connections that can be accepted."""


@dataclass(frozen=True, slots=True)
class CmAccept:
    """The parameters of an accepted connection."""

    qid: int
    recv_depth: int
    """Maximum outstanding capsules of the host; CRQSIZE of the reply."""
    send_depth: int
    """Number of responses that the host can receive."""
    initiator_depth: int
    """Maximum outstanding RDMA READs of the target."""
    cntlid: int
    """The controller identifier of an I/O queue, from the host; 0 from older hosts."""


def decide(private_data: bytes, initiator_depth: int, limits: CmLimits) -> CmAccept:
    """Check the private data of a REQ (RDMA Transport 1.0, 3.1), and return the parameters.

    initiator_depth: from the REQ, the outstanding RDMA READs that the host permits the target.
    Raises CmRejectError.  A host's ORD is never rejected: hosts do not read from a target, so the
    reply permits none.
    """
    try:
        request = CmRequest.decode(private_data)
    except StatusError:
        raise CmRejectError(
            CmStatus.INVALID_LENGTH,
            f"private data of {len(private_data)} bytes; at least {CmRequest.SIZE} are required",
        ) from None
    if request.recfmt != 0:
        raise CmRejectError(CmStatus.INVALID_RECFMT, f"record format {request.recfmt}, not 0")
    if request.qid > limits.io_queues:
        raise CmRejectError(
            CmStatus.INVALID_QID, f"queue {request.qid}; the highest is {limits.io_queues}"
        )
    most = limits.queue_size if request.qid else ADMIN_QUEUE_DEPTH
    if not 2 <= request.hsqsize + 1 <= most:
        raise CmRejectError(
            CmStatus.INVALID_HSQSIZE,
            f"queue of {request.hsqsize + 1} entries; 2 to {most} are possible",
        )
    if request.hrqsize == 0:
        raise CmRejectError(CmStatus.INVALID_HRQSIZE, "the host cannot receive responses")
    if initiator_depth == 0:
        raise CmRejectError(CmStatus.INVALID_IRD, "the host permits no RDMA READs")
    if limits.free_queues < 1:
        raise CmRejectError(CmStatus.NO_RESOURCES, "all connections are in use")
    return CmAccept(
        qid=request.qid,
        recv_depth=request.hsqsize + 1,
        send_depth=min(request.hrqsize, most),
        initiator_depth=min(initiator_depth, limits.initiator_depth),
        cntlid=request.cntlid,
    )
