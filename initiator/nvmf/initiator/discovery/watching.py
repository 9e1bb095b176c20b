# SPDX-License-Identifier: BSD-3-Clause
"""A discovery controller that stays connected, and reports changes of its log.

It is an explicit persistent connection (Base 2.1, 3.1.3.3), with Keep Alive and the event Discovery
Log Page Change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from nvmf.auth.key import Key
from nvmf.initiator.base.discoverylog import LogChanging
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.keywords import defaults, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller
from nvmf.initiator.discovery.log import read_log
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader, decode_discovery_log
from nvmf.spec.features import AsyncEvent, AsyncEvents
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import LogId

DISCOVERY_KATO = 30.0
"""Keep Alive Timeout in seconds: that of nvme-cli for persistent discovery controllers."""
_REST = 1.0
"""Seconds until a log that changed during each of several readings is read again."""
KEPT = defaults(ConnectOptions(kato=DISCOVERY_KATO))


@dataclass(frozen=True, slots=True)
class Change:
    """A discovery log that has changed."""

    header: DiscoveryHeader
    entries: tuple[DiscoveryEntry, ...]
    added: tuple[DiscoveryEntry, ...]
    """Entries that were not in the log before; all entries at first."""
    removed: tuple[DiscoveryEntry, ...]


@asynccontextmanager
async def watch(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    subnqn: str = DISCOVERY_NQN,
    queues: int = KEPT.queues, queue_depth: int = KEPT.queue_depth, kato: float = KEPT.kato,
    hostnqn: str | None = KEPT.hostnqn, hostid: str | None = KEPT.hostid,
    host_traddr: str | None = KEPT.host_traddr, reconnect_delay: float = KEPT.reconnect_delay,
    ctrl_loss_tmo: float = KEPT.ctrl_loss_tmo, io_timeout: float = KEPT.io_timeout,
    admin_timeout: float = KEPT.admin_timeout, connect_timeout: float = KEPT.connect_timeout,
    in_capsule: bool = KEPT.in_capsule, disable_sqflow: bool = KEPT.disable_sqflow,
    dhchap_secret: Key | str | None = KEPT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = KEPT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = KEPT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = KEPT.dhchap_ctrl_secret_file,
    device: DeviceKind = KEPT.device, remote_keys: RemoteKeys = KEPT.remote_keys,
    backend: Backend = KEPT.backend, write_queues: int = KEPT.write_queues,
    poll_queues: int = KEPT.poll_queues, fast_io_fail_tmo: float | None = KEPT.fast_io_fail_tmo,
    tos: int | None = KEPT.tos, duplicate_connect: bool = KEPT.duplicate_connect,
) -> AsyncIterator[AsyncIterator[Change]]:  # fmt: skip
    """Yield the log of a port, and then each change, also after lost connections.

        async with watch("nvme+rdma://192.0.2.1") as changes:
            async for change in changes:
                print(change.added, change.removed)

    The iteration ends with ConnectionLost if the target is not reachable within ctrl_loss_tmo.
    Raises ConnectError, NvmeError, ConnectionLost.
    """
    changes = given(locals())
    place = TransportId.of(where)
    wanted = (options or ConnectOptions(kato=DISCOVERY_KATO)).with_options(
        {**place.options, **changes}
    )
    if not wanted.kato:
        raise ValueError("kato must be more than 0 seconds for a persistent discovery controller")
    controller = await Controller.connect(replace(place, subnqn=subnqn), wanted)
    try:
        if not controller.identify.oaes & AsyncEvents.DISCOVERY_CHANGE:
            raise ConnectionLost(
                f"the discovery controller at {place.endpoint} reports no changes (OAES bit 31)"
            )
        iterator = _changes(controller)
        try:
            yield iterator
        finally:
            await iterator.aclose()
    finally:
        await controller.close()


async def _changes(controller: Controller) -> AsyncGenerator[Change, None]:
    changed = asyncio.Event()

    def on_event(event: AsyncEvent) -> None:
        if event.lid == LogId.DISCOVERY:
            changed.set()

    controller.on_event(on_event)
    before: tuple[DiscoveryEntry, ...] | None = None
    while True:
        session = controller.session
        changed.clear()
        try:
            data = await controller.with_admin(read_log)
        except LogChanging:  # such as while a script adds subsystems
            await asyncio.sleep(_REST)
            continue
        header, found = decode_discovery_log(data)
        entries = tuple(found)
        if entries != before:
            old = before or ()
            added, removed = set(entries).difference(old), set(old).difference(entries)
            yield Change(
                header,
                entries,
                tuple(entry for entry in entries if entry in added),
                tuple(entry for entry in old if entry in removed),
            )
            before = entries
        waiting = asyncio.ensure_future(changed.wait())
        try:
            # No event reports what happened while the connection was lost.
            either: set[asyncio.Future[Any]] = {waiting, session.lost}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
