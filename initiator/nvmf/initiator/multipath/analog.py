# SPDX-License-Identifier: BSD-3-Clause
"""Reading the Asymmetric Namespace Access log page of a session (Base 2.0, 5.16.1.13)."""

from __future__ import annotations

from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.limits import LARGEST, TRIES
from nvmf.initiator.client.session import Session
from nvmf.spec.ana import AnaGroup, AnaState, ana_log_size, decode_ana_log
from nvmf.spec.opcodes import LogId

_MOST = 1 << 16
"""Maximum groups and namespaces of a log that is read; NANAGRPID and NN may be any number."""
_HEAD = 16


async def read_ana(session: Session) -> list[AnaGroup]:
    """Return the groups at one moment, and allow further events.

    Raises NvmeError, QueueLost, DecodeError, and ConnectionLost if the log changes at each reading.
    """
    identify = session.identify
    namespaces = min(identify.mnan or identify.nn, _MOST)
    size = ana_log_size(min(identify.nanagrpid, _MOST), namespaces)
    chunk = min(LARGEST, session.max_transfer)
    if size <= chunk:
        return decode_ana_log(await session.admin.log_page(LogId.ANA, size, chunk=chunk))[1]
    for _ in range(TRIES):
        data = await session.admin.log_page(LogId.ANA, size, rae=True, chunk=chunk)
        # The last reading allows the next event, which reports later changes.
        head = await session.admin.log_page(LogId.ANA, _HEAD)
        if head[:8] == data[:8]:  # the change count
            return decode_ana_log(data)[1]
    raise ConnectionLost(f"the ANA log page changed during each of {TRIES} readings")


def states(groups: list[AnaGroup]) -> dict[int, AnaState]:
    """Return states by NSID; a namespace with an undefined state is left out, and so not used."""
    known = set(AnaState)
    return {nsid: AnaState(one.state) for one in groups for nsid in one.nsids if one.state in known}
