# SPDX-License-Identifier: BSD-3-Clause
"""Every reason to refuse a connection, and the parameters of an accepted one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.spec.cm import CmRejectError, CmRequest, CmStatus
from nvmf.target.commands.cm import CmAccept, CmLimits, decide
from support.faketarget import dialogue

LIMITS = CmLimits(queue_size=128, io_queues=8)


def request(**fields: int) -> bytes:
    values: dict[str, int] = {"qid": 1, "hrqsize": 128, "hsqsize": 127}
    values.update(fields)
    return CmRequest(**values).encode()


@pytest.mark.parametrize("name", ["discovery", "admin", "io"])
def test_linux_is_accepted_as_nvmet_accepts_it(name: str) -> None:
    accepted = decide(dialogue(name).req, 128, LIMITS)
    assert accepted.recv_depth == int.from_bytes(dialogue(name).rep[2:4], "little")
    assert accepted.initiator_depth == LIMITS.initiator_depth


def test_padding_of_the_transport_is_allowed() -> None:
    # InfiniBand always delivers 196 bytes, however many were sent.
    assert decide(request().ljust(196, b"\0"), 4, LIMITS) == CmAccept(1, 128, 128, 4, 0)


@pytest.mark.parametrize(
    ("data", "depth", "status"),
    [
        (b"", 4, CmStatus.INVALID_LENGTH),
        (request()[:31], 4, CmStatus.INVALID_LENGTH),
        (request(recfmt=1), 4, CmStatus.INVALID_RECFMT),
        (request(qid=9), 4, CmStatus.INVALID_QID),
        (request(qid=0xFFFF), 4, CmStatus.INVALID_QID),
        (request(hsqsize=128), 4, CmStatus.INVALID_HSQSIZE),
        (request(hsqsize=0), 4, CmStatus.INVALID_HSQSIZE),
        (request(hsqsize=0xFFFF), 4, CmStatus.INVALID_HSQSIZE),
        (request(qid=0, hsqsize=128, hrqsize=129), 4, CmStatus.INVALID_HSQSIZE),
        (request(hrqsize=0), 4, CmStatus.INVALID_HRQSIZE),
        (request(), 0, CmStatus.INVALID_IRD),
    ],
)
def test_refusals(data: bytes, depth: int, status: CmStatus) -> None:
    with pytest.raises(CmRejectError) as caught:
        decide(data, depth, LIMITS)
    assert caught.value.status == status
    assert caught.value.encode() == bytes([0, 0, status, 0])


def test_no_connection_left() -> None:
    with pytest.raises(CmRejectError) as caught:
        decide(request(), 4, CmLimits(queue_size=128, io_queues=8, free_queues=0))
    assert caught.value.status == CmStatus.NO_RESOURCES


@given(st.binary(max_size=64), st.integers(0, 255))
def test_any_private_data_is_accepted_or_rejected(data: bytes, depth: int) -> None:
    try:
        accepted = decide(data, depth, LIMITS)
    except CmRejectError:
        return
    assert 2 <= accepted.recv_depth <= 128
    assert 1 <= accepted.send_depth <= LIMITS.queue_size
    assert 1 <= accepted.initiator_depth <= LIMITS.initiator_depth
