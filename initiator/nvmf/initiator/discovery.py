# SPDX-License-Identifier: BSD-3-Clause
"""Discovery: what subsystems a port offers (Base 2.0, 5.16.1.23)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nvmf.initiator.attach import first_session
from nvmf.initiator.errors import ConnectionLost
from nvmf.initiator.options import ConnectOptions
from nvmf.initiator.session import Session
from nvmf.initiator.transport_id import TransportId
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader, decode_discovery_log
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import LogId
from nvmf.spec.status import DecodeError

TRIES = 10
"""How often a log that changes under the reader is read again."""
_PAGE = 4096
_MAX_RECORDS = 65536


async def discover(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> list[DiscoveryEntry]:
    """The discovery log of the port that where names.

    A subsystem in where that is not a discovery subsystem is passed over: the well-known one is
    asked.  Options are those of ConnectOptions.  Raises ConnectError, NvmeError, ConnectionLost.
    """
    _, entries = await discovery_log(where, options, **changes)
    return entries


async def discovery_log(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> tuple[DiscoveryHeader, list[DiscoveryEntry]]:
    """The discovery log with its header: see discover()."""
    place = TransportId.of(where)
    wanted = (options or ConnectOptions(kato=0)).with_options({**place.options, **changes})
    session = await first_session(replace(place, subnqn=DISCOVERY_NQN), wanted)
    try:
        found = await session.guard(read_log(session))
        await session.shutdown()
        return found
    finally:
        try:
            await session.close()
        finally:
            session.place.pool.close()


async def read_log(session: Session) -> tuple[DiscoveryHeader, list[DiscoveryEntry]]:
    """Header and entries that are of one generation: read again where GENCTR changes meanwhile."""
    for _ in range(TRIES):
        first = await session.admin.log_page(LogId.DISCOVERY, DiscoveryHeader.SIZE)
        header = DiscoveryHeader.decode(first)
        if header.numrec > _MAX_RECORDS:
            raise DecodeError(f"the discovery log announces {header.numrec} entries")
        rest = await session.admin.log_page(
            LogId.DISCOVERY,
            header.numrec * DiscoveryEntry.SIZE,
            offset=DiscoveryHeader.SIZE,
            chunk=_PAGE,
        )
        again = await session.admin.log_page(LogId.DISCOVERY, DiscoveryHeader.SIZE)
        if DiscoveryHeader.decode(again).genctr == header.genctr:
            return decode_discovery_log(first + rest)
    raise ConnectionLost(f"the discovery log changed under each of {TRIES} readings; try again")
