# SPDX-License-Identifier: BSD-3-Clause
"""Discovery: the subsystems that a port offers (Base 2.1, 5.1.12.3.1)."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import replace

from nvmf.auth.key import Key
from nvmf.initiator.base.discoverylog import MAX_RECORDS, DiscoveryLog
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.keywords import ASKING, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import Embedded, TransportId
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.bringup import first_session
from nvmf.spec.fabrics import (
    DiscoveryEntry,
    DiscoveryHeader,
    RdmaProvider,
    SubsystemType,
    TransportType,
    decode_discovery_log,
)
from nvmf.spec.nqn import DISCOVERY_NQN, is_valid_nqn
from nvmf.spec.opcodes import LogId

_MOST_SECONDS = 600.0
"""Maximum seconds for reading a log."""
_EMBEDDED: dict[int, Embedded] = {RdmaProvider.IWARP: "iwarp", RdmaProvider.ROCEV2: "roce"}
"""The embedded devices by the RDMA provider type of a record."""


async def discover(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = ASKING.queues, queue_depth: int = ASKING.queue_depth, kato: float = ASKING.kato,
    hostnqn: str | None = ASKING.hostnqn, hostid: str | None = ASKING.hostid,
    host_traddr: str | None = ASKING.host_traddr, reconnect_delay: float = ASKING.reconnect_delay,
    ctrl_loss_tmo: float = ASKING.ctrl_loss_tmo, io_timeout: float = ASKING.io_timeout,
    admin_timeout: float = ASKING.admin_timeout, connect_timeout: float = ASKING.connect_timeout,
    in_capsule: bool = ASKING.in_capsule, disable_sqflow: bool = ASKING.disable_sqflow,
    dhchap_secret: Key | str | None = ASKING.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = ASKING.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = ASKING.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = ASKING.dhchap_ctrl_secret_file,
    device: DeviceKind = ASKING.device, remote_keys: RemoteKeys = ASKING.remote_keys,
    backend: Backend = ASKING.backend, write_queues: int = ASKING.write_queues,
    poll_queues: int = ASKING.poll_queues, fast_io_fail_tmo: float | None = ASKING.fast_io_fail_tmo,
    tos: int | None = ASKING.tos, duplicate_connect: bool = ASKING.duplicate_connect,
) -> list[DiscoveryEntry]:  # fmt: skip
    """Return the discovery log of a port.

    The well-known discovery subsystem is asked, whatever NQN where has: discover_all() asks one
    with a unique NQN.
    Options are those of ConnectOptions. Raises ConnectError, NvmeError, ConnectionLost.
    """
    _, entries = await discovery_log(where, options, **given(locals()))
    return entries


async def discovery_log(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = ASKING.queues, queue_depth: int = ASKING.queue_depth, kato: float = ASKING.kato,
    hostnqn: str | None = ASKING.hostnqn, hostid: str | None = ASKING.hostid,
    host_traddr: str | None = ASKING.host_traddr, reconnect_delay: float = ASKING.reconnect_delay,
    ctrl_loss_tmo: float = ASKING.ctrl_loss_tmo, io_timeout: float = ASKING.io_timeout,
    admin_timeout: float = ASKING.admin_timeout, connect_timeout: float = ASKING.connect_timeout,
    in_capsule: bool = ASKING.in_capsule, disable_sqflow: bool = ASKING.disable_sqflow,
    dhchap_secret: Key | str | None = ASKING.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = ASKING.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = ASKING.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = ASKING.dhchap_ctrl_secret_file,
    device: DeviceKind = ASKING.device, remote_keys: RemoteKeys = ASKING.remote_keys,
    backend: Backend = ASKING.backend, write_queues: int = ASKING.write_queues,
    poll_queues: int = ASKING.poll_queues, fast_io_fail_tmo: float | None = ASKING.fast_io_fail_tmo,
    tos: int | None = ASKING.tos, duplicate_connect: bool = ASKING.duplicate_connect,
) -> tuple[DiscoveryHeader, list[DiscoveryEntry]]:  # fmt: skip
    """Return the discovery log with its header: see discover()."""
    changes = given(locals())
    place = TransportId.of(where)
    wanted = (options or ConnectOptions(kato=0)).with_options({**place.options, **changes})
    return decode_discovery_log(await raw_log(replace(place, subnqn=DISCOVERY_NQN), wanted))


async def raw_log(place: TransportId, options: ConnectOptions, most: int = MAX_RECORDS) -> bytes:
    """Return the bytes of the log of a discovery subsystem, which may have a unique NQN."""
    session = await first_session(place, options)
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            found = await session.guard(read_log(session.admin, most))
        await session.shutdown()
        return found
    except TimeoutError:
        raise ConnectionLost(
            f"the discovery log of {place.endpoint} was not read within {_MOST_SECONDS:g} s"
        ) from None
    finally:
        try:
            await session.close()
        finally:
            session.place.pool.close()


async def read_log(admin: Admin, most: int = MAX_RECORDS) -> bytes:
    """Return a log whose parts have one generation; raise as DiscoveryLog.add() does."""
    log = DiscoveryLog(most)
    while (part := log.part) is not None:
        log.add(
            await admin.log_page(
                LogId.DISCOVERY, part.length, nsid=0, offset=part.offset, rae=part.rae
            )
        )
    return log.data


def place_of(entry: DiscoveryEntry) -> TransportId:
    """Return the address of a record; ValueError says why this client cannot connect to it."""
    if entry.trtype != TransportType.RDMA:
        raise ValueError(f"its transport is {transport_name(entry.trtype)}, not rdma")
    nqn = entry.subnqn
    if entry.subtype != SubsystemType.NVME and not is_valid_nqn(nqn):
        nqn = DISCOVERY_NQN
    embedded = _EMBEDDED.get(entry.rdma_prtype)
    return TransportId(entry.traddr.strip(), entry.trsvcid.strip(), nqn, embedded=embedded)


def transport_name(trtype: int) -> str:
    """Return the name of a transport (rdma, tcp, ...), or its number if it has none."""
    try:
        return TransportType(trtype).name.lower()
    except ValueError:
        return f"type {trtype}"


def address_key(place: TransportId) -> tuple[str, str]:
    """Return the address in a form that is equal for all spellings of it."""
    try:
        return str(ipaddress.ip_address(place.traddr)), str(int(place.trsvcid))
    except ValueError:
        return place.traddr.lower(), str(int(place.trsvcid))
