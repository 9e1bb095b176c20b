# SPDX-License-Identifier: BSD-3-Clause
"""The functions of the client, each on the event loop of a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from nvmf.auth.key import Key
from nvmf.initiator.base.keywords import ASKING, DEFAULT, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.connecting.connect import connect as async_connect
from nvmf.initiator.connecting.everything import Outcome
from nvmf.initiator.connecting.everything import connect_all as async_connect_all
from nvmf.initiator.discovery.log import discover as async_discover
from nvmf.initiator.discovery.log import discovery_log as async_discovery_log
from nvmf.initiator.discovery.referrals import MAX_DEPTH, FoundLog
from nvmf.initiator.discovery.referrals import discover_all as async_discover_all
from nvmf.initiator.discovery.watching import KEPT, Change
from nvmf.initiator.discovery.watching import watch as async_watch
from nvmf.initiator.multipath import Policy
from nvmf.initiator.multipath import connect_multipath as async_connect_multipath
from nvmf.initiator.multipath import find_paths as async_find_paths
from nvmf.initiator.sync.blocking import Loop
from nvmf.initiator.sync.controller import Controller
from nvmf.initiator.sync.items import items_of, items_until
from nvmf.initiator.sync.subsystem import Subsystem
from nvmf.spec.fabrics import DiscoveryEntry, DiscoveryHeader
from nvmf.spec.nqn import DISCOVERY_NQN

T = TypeVar("T")
S = TypeVar("S")


def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    backend: Backend = DEFAULT.backend, write_queues: int = DEFAULT.write_queues,
    poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> Controller:  # fmt: skip
    """Connect: see nvmf.initiator.connect."""
    return _connected(async_connect(where, options, **given(locals())), Controller)


def connect_multipath(
    paths: Iterable[str | TransportId], options: ConnectOptions | None = None, /, *,
    policy: Policy = "numa",
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    backend: Backend = DEFAULT.backend, write_queues: int = DEFAULT.write_queues,
    poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> Subsystem:  # fmt: skip
    """Connect through several ports: see nvmf.initiator.multipath.connect_multipath."""
    changes = given(locals())
    pending = async_connect_multipath(paths, options, policy=policy, **changes)
    return _connected(pending, Subsystem)


def _connected(pending: Awaitable[T], make: Callable[[Loop, T], S]) -> S:
    loop = Loop()
    try:
        return make(loop, loop.call(_result(pending)))
    except BaseException:
        loop.close()
        raise


async def _result(pending: Awaitable[T]) -> T:
    return await pending


def find_paths(
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
) -> list[TransportId]:  # fmt: skip
    """Return the ports of a subsystem: see nvmf.initiator.multipath.find_paths."""
    return asyncio.run(async_find_paths(where, options, **given(locals())))


def connect_all(
    where: str | TransportId | None = None, options: ConnectOptions | None = None, /, *,
    connected: Iterable[Controller] = (), depth: int = MAX_DEPTH, subnqn: str = DISCOVERY_NQN,
    config: Path | None = None,
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    backend: Backend = DEFAULT.backend, write_queues: int = DEFAULT.write_queues,
    poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> Generator[Outcome[Controller], None, None]:  # fmt: skip
    """Connect to everything, one after the other: see nvmf.initiator.connect_all.

    One thread serves all the controllers.
    """
    changes = given(locals())
    outcomes = async_connect_all(
        where,
        options,
        connected=[one._controller for one in connected],
        depth=depth,
        subnqn=subnqn,
        config=config,
        **changes,
    )
    loop = Loop()
    try:
        with items_of(loop, outcomes) as items:
            for found in items:
                made = found.controller
                yield Outcome(
                    found.place,
                    Controller(loop.share(), made) if made is not None else None,
                    found.error,
                    found.skipped,
                )
    finally:
        loop.close()


@contextmanager
def watch(
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
) -> Generator[Generator[Change, None, None], None, None]:  # fmt: skip
    """Yield a discovery log, and then each change: see nvmf.initiator.watch.

    with watch("nvme+rdma://192.0.2.1") as changes:
        for change in changes:      # waits for each; an interrupt ends the waiting
            print(change.added, change.removed)
    """
    changes = given(locals())
    watching = async_watch(where, options, subnqn=subnqn, **changes)
    loop = Loop()
    try:
        found = loop.call(_enter(watching))
        with items_until(loop, found, lambda: _leave(watching)) as items:
            yield items
    finally:
        loop.close()


async def _enter(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[object]) -> None:
    await context.__aexit__(None, None, None)


def discover(
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
    """Return the discovery log of a port: see nvmf.initiator.discover."""
    return asyncio.run(async_discover(where, options, **given(locals())))


def discovery_log(
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
    """Return the discovery log with its header: see nvmf.initiator.discovery_log."""
    return asyncio.run(async_discovery_log(where, options, **given(locals())))


def discover_all(
    starts: str | TransportId | Iterable[TransportId], options: ConnectOptions | None = None, /, *,
    depth: int = MAX_DEPTH,
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
) -> Generator[FoundLog, None, None]:  # fmt: skip
    """Return the logs of services and of their referrals: see nvmf.initiator.discover_all."""
    changes = given(locals())
    logs = async_discover_all(starts, options, depth=depth, **changes)
    loop = Loop()
    try:
        with items_of(loop, logs) as items:
            yield from items
    finally:
        loop.close()
