# SPDX-License-Identifier: BSD-3-Clause
"""Connect to all subsystems that discovery finds, or that the host files name.

connect_found() does it for connect_all() and for the command line's connect-all. The two differ in
the Connector: the client or the kernel reads the logs and connects.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from nvmf.auth.key import Key
from nvmf.engine import EngineError
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.keywords import DEFAULT, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.connecting.connect import connect_controller
from nvmf.initiator.discovery.log import address_key, place_of
from nvmf.initiator.discovery.referrals import (
    MAX_DEPTH,
    Ask,
    FoundLog,
    follow,
    read_logs,
)
from nvmf.initiator.hostfiles import HostFileError, configured
from nvmf.initiator.kernel.errors import KernelError
from nvmf.spec.fabrics import DiscoveryEntry, SubsystemType, TransportType
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.status import StatusError

Address = tuple[str, str, str]
"""A key that is equal for the same subsystem at the same port."""
C = TypeVar("C")
"""A connection."""


class HostOptions(Protocol):
    """The options of a connection that tell two hosts apart."""

    @property
    def hostnqn(self) -> str | None:
        """NQN of this host; None: the default."""

    @property
    def host_traddr(self) -> str | None:
        """Source address; None: that of the route."""


Opts = TypeVar("Opts", bound=HostOptions)
"""The options of a connection."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[C]):
    """The result of one subsystem at one address, or of one discovery service."""

    place: TransportId
    controller: C | None = None
    """The controller; the caller of connect_all() closes it."""
    error: Exception | None = None
    """The reason if there is no connection: a sentence."""
    skipped: bool = False
    """Whether it was connected already."""


@dataclass(frozen=True, slots=True)
class Start(Generic[Opts]):
    """A controller that the caller names."""

    place: TransportId
    options: Opts
    found: Opts | None = None
    """The options for the subsystems in its log; None: it is not a discovery controller."""


class Connector(ABC, Generic[Opts, C]):
    """Reads discovery logs, and connects."""

    @abstractmethod
    async def read(self, asked: Sequence[Ask[Opts]]) -> Sequence[FoundLog]:
        """Read logs, and return one result for each."""

    @abstractmethod
    async def connect(self, place: TransportId, options: Opts) -> Outcome[C]:
        """Connect to one subsystem."""


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
    wanted = (options or ConnectOptions()).with_options(changes)
    starts = []
    if where is not None:
        place = TransportId.of(where)
        wanted = wanted.with_options({**place.options, **changes})
        starts.append(Start(replace(place, subnqn=subnqn, options={}), wanted, wanted))
    else:
        for endpoint in configured(config):
            if endpoint.transport == "rdma":
                found = endpoint.options(endpoint.found_subsystem, **changes)
                own = endpoint.options(**changes)
                starts.append(Start(endpoint.place(), own, found if endpoint.discovery else None))
    outcomes = connect_found(starts, ByClient(), depth=depth, connected=connected)
    async with aclosing(outcomes):
        async for outcome in outcomes:
            yield outcome


async def connect_found(
    starts: Iterable[Start[Opts]],
    by: Connector[Opts, C],
    *,
    depth: int = MAX_DEPTH,
    connected: Iterable[AnyController] = (),
) -> AsyncGenerator[Outcome[C], None]:
    """Connect to controllers, and to the subsystems in the logs of those for discovery.

    Each result is as connect_all() describes it.
    """
    run = _Run(by, depth, {_address(controller.where) for controller in connected})
    for start in starts:
        if start.found is None:
            yield await run.connect(start.place, start.options)
            continue
        async with aclosing(run.discovered(start, start.found)) as outcomes:
            async for outcome in outcomes:
                yield outcome


def _address(place: TransportId) -> Address:
    return (*address_key(place), place.subnqn)


class _Run(Generic[Opts, C]):
    """The state of one run: the connections that were made or tried."""

    def __init__(self, by: Connector[Opts, C], depth: int, connected: set[Address]) -> None:
        self._by = by
        self._depth = depth
        self._connected = connected
        self._tried: set[tuple[Address, str | None, str | None]] = set()

    async def discovered(
        self, start: Start[Opts], options: Opts
    ) -> AsyncGenerator[Outcome[C], None]:
        """Connect to the subsystems in a log, and in those that it refers to."""
        async with aclosing(
            follow([(start.place, start.options)], self._by.read, self._depth)
        ) as logs:
            async for log in logs:
                if log.error is not None:
                    yield Outcome(log.place, error=log.error)
                for entry in log.entries:
                    if entry.subtype == SubsystemType.NVME and entry.trtype == TransportType.RDMA:
                        yield await self._record(log.place, entry, options)

    async def _record(
        self, service: TransportId, entry: DiscoveryEntry, options: Opts
    ) -> Outcome[C]:
        try:
            place = place_of(entry)
        except ValueError as error:
            why = f"cannot use the record of {entry.subnqn!a} in the discovery log: {error}"
            return Outcome(service, error=ValueError(why))
        return await self.connect(place, options)

    async def connect(self, place: TransportId, options: Opts) -> Outcome[C]:
        """Connect to one subsystem, unless that was done or tried."""
        address = _address(place)
        connection = (address, options.hostnqn, options.host_traddr)
        if address in self._connected or connection in self._tried:
            return Outcome(place, skipped=True)
        self._tried.add(connection)
        return await self._by.connect(place, options)


class ByClient(Connector[ConnectOptions, AnyController]):
    """The client reads the logs; the backend in the options connects."""

    async def read(self, asked: Sequence[Ask[ConnectOptions]]) -> Sequence[FoundLog]:
        """Read logs, all at the same time."""
        once = {"kato": 0, "backend": "client"}  # the log is read once
        return await read_logs(
            [replace(ask, options=ask.options.with_options(once)) for ask in asked]
        )

    async def connect(self, place: TransportId, options: ConnectOptions) -> Outcome[AnyController]:
        """Connect to one subsystem."""
        if options.backend == "kernel" and "," in f"{place.traddr}{place.subnqn}":
            why = f"the kernel accepts no comma in {place.subnqn!a} at {place.traddr!a}"
            return Outcome(place, error=KernelError(why))
        try:
            return Outcome(place, await connect_controller(place, options))
        except (EngineError, StatusError, ConnectionLost, KernelError) as error:
            if isinstance(error, KernelError) and error.errno == errno.EALREADY:
                return Outcome(place, skipped=True)
            return Outcome(place, error=error)


__all__ = ["HostFileError", "Outcome", "connect_all"]
