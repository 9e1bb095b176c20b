# SPDX-License-Identifier: BSD-3-Clause
"""Connect to all subsystems that discovery finds, or that the host files name."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from nvmf.auth.key import Key
from nvmf.engine import EngineError
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.keywords import DEFAULT, given
from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.connecting.connect import connect_controller
from nvmf.initiator.discovery.log import address_key, place_of
from nvmf.initiator.discovery.referrals import MAX_DEPTH, discover_all
from nvmf.initiator.hostfiles import Endpoint, HostFileError, configured
from nvmf.initiator.kernel.errors import KernelError
from nvmf.spec.fabrics import SubsystemType, TransportType
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.status import StatusError

Address = tuple[str, str, str]
"""Return a key that is equal for the same subsystem at the same port."""
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[C]):
    """The result of one subsystem at one address, or of one discovery service."""

    place: TransportId
    controller: C | None = None
    """The controller; the caller closes it."""
    error: Exception | None = None
    """The reason if there is no connection: a sentence."""
    skipped: bool = False
    """Whether it was connected already."""


async def connect_all(
    where: str | TransportId | None = None, options: ConnectOptions | None = None, /, *,
    connected: Iterable[AnyController] = (), depth: int = MAX_DEPTH, subnqn: str = DISCOVERY_NQN,
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
) -> AsyncGenerator[Outcome[AnyController], None]:  # fmt: skip
    """Connect to the subsystems in the discovery log of a port, and in the logs that it refers to.

    subnqn is the NQN of the discovery subsystem, and replaces that of the URL.

    Without a port, the controllers are taken from the host files, or from the file config instead.
    Subsystems in connected, and repeated ones, are skipped, as are records of other transports. A
    record that cannot be used yields an outcome of the discovery service with an error. A subsystem
    that cannot be connected yields an outcome with an error; the others are still connected.
    Options are those of ConnectOptions: with backend="kernel" the client reads the logs, the kernel
    connects, and subsystems that are already connected are skipped. Raises HostFileError if a host
    file cannot be used.
    """
    changes = given(locals())
    run = _Run({_key(controller.where) for controller in connected}, depth)
    wanted = (options or ConnectOptions()).with_options(changes)
    if where is not None:
        place = TransportId.of(where)
        wanted = wanted.with_options({**place.options, **changes})
        start = replace(place, subnqn=subnqn, options={})
        async for outcome in run.discovered(start, wanted, wanted):
            yield outcome
        return
    for endpoint in configured(config):
        if endpoint.transport != "rdma":
            continue
        async for outcome in run.configured(endpoint, changes):
            yield outcome


def _key(place: TransportId) -> Address:
    return (*address_key(place), place.subnqn)


class _Run:
    """The state of one run: addresses that were handled."""

    def __init__(self, seen: set[Address], depth: int) -> None:
        self._seen = seen
        self._depth = depth

    async def configured(
        self, endpoint: Endpoint, changes: Values
    ) -> AsyncGenerator[Outcome[AnyController], None]:
        """Connect to one controller of a host file, or to the subsystems in its log."""
        place, how = endpoint.place(), endpoint.options(**changes)
        if not endpoint.discovery:
            yield await self._connect(place, how)
            return
        found = endpoint.options(endpoint.found_subsystem, **changes)
        async for outcome in self.discovered(place, how, found):
            yield outcome

    async def discovered(
        self, start: TransportId, how: ConnectOptions, found: ConnectOptions
    ) -> AsyncGenerator[Outcome[AnyController], None]:
        """Connect to the subsystems in a log; how: options for the port, found: for them."""
        asking = how.with_options({"kato": 0, "backend": "client"})  # the log is read once
        async for log in discover_all(start, asking, depth=self._depth):
            if log.error is not None:
                yield Outcome(log.place, error=log.error)
            for entry in log.entries:
                if entry.subtype != SubsystemType.NVME or entry.trtype != TransportType.RDMA:
                    continue
                try:
                    place = place_of(entry)
                except ValueError as error:
                    why = f"cannot use the record of {entry.subnqn!a} in the discovery log: {error}"
                    yield Outcome(log.place, error=ValueError(why))
                    continue
                if found.backend == "kernel" and "," in f"{place.traddr}{place.subnqn}":
                    why = f"the kernel accepts no comma in {place.subnqn!a} at {place.traddr!a}"
                    yield Outcome(place, error=KernelError(why))
                    continue
                yield await self._connect(place, found)

    async def _connect(self, place: TransportId, options: ConnectOptions) -> Outcome[AnyController]:
        if _key(place) in self._seen:
            return Outcome(place, skipped=True)
        self._seen.add(_key(place))
        try:
            return Outcome(place, await connect_controller(place, options))
        except (EngineError, StatusError, ConnectionLost, KernelError) as error:
            if isinstance(error, KernelError) and error.errno == errno.EALREADY:
                return Outcome(place, skipped=True)
            return Outcome(place, error=error)


__all__ = ["HostFileError", "Outcome", "connect_all"]
