# SPDX-License-Identifier: BSD-3-Clause
"""A subsystem with several paths: the methods of AnyController, and the paths themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from nvmf.auth.key import Key
from nvmf.initiator.base.errors import ConnectionLost, QueueLost
from nvmf.initiator.base.keywords import DEFAULT, given
from nvmf.initiator.base.memory import BorrowedMemory, KernelMemory
from nvmf.initiator.base.option import Values
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.state import State
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller
from nvmf.initiator.discovery.log import address_key
from nvmf.initiator.multipath.namespace import MultipathNamespace
from nvmf.initiator.multipath.path import Path
from nvmf.initiator.multipath.paths import Paths
from nvmf.spec.identify import IdentifyController
from nvmf.spec.properties import Version

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")
Place = tuple[TransportId, ConnectOptions]


def places_of(
    where: Iterable[str | TransportId], options: ConnectOptions, changes: Values
) -> list[Place]:
    """Return the addresses of paths with their options; raise ValueError if one is invalid."""
    places: list[Place] = []
    seen: set[tuple[str, str]] = set()
    for one in where:
        place = TransportId.of(one)
        wanted = options.with_options({**place.options, **changes})
        if wanted.backend != "client":
            raise ValueError(
                "connect_multipath() has no backend kernel: connect each path, and Linux's "
                "multipath joins them"
            )
        if place.is_discovery:
            raise ValueError(f"{one}: a path leads to a subsystem, and its URL names the NQN")
        if places and place.subnqn != places[0][0].subnqn:
            raise ValueError(
                f"paths lead to one subsystem, not to {places[0][0].subnqn} and {place.subnqn}"
            )
        if address_key(place) in seen:
            raise ValueError(f"{place.endpoint} is given twice")
        seen.add(address_key(place))
        places.append((place, wanted))
    if not places:
        raise ValueError("a subsystem needs at least one path")
    return places


class Subsystem:
    """A connected subsystem: make it with connect_multipath()."""

    def __init__(self, options: ConnectOptions, paths: Paths) -> None:
        self._options = options
        self._paths = paths
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        count = len(self.paths)
        said = f"{count} path{'' if count == 1 else 's'}"
        return f"<Subsystem {self._paths.subnqn} by {said}, {self.state.value}>"

    @classmethod
    async def connect(
        cls, places: Sequence[Place], options: ConnectOptions, policy: str
    ) -> Subsystem:
        """Connect through all paths: see connect_multipath()."""
        paths = Paths(places[0][0].subnqn, policy)
        await paths.connect(places)
        return cls(options, paths)

    # ---- paths ----

    @property
    def paths(self) -> Sequence[Path]:
        """The paths, in the given order, with state, ANA states and counts."""
        return tuple(self._paths.paths)

    @property
    def policy(self) -> str:
        """numa, round-robin or queue-depth; it may be set at any time."""
        return self._paths.policy

    @policy.setter
    def policy(self, policy: str) -> None:
        self._paths.policy = policy

    async def add_path(
        self, where: str | TransportId, /, *,
        queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
        kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
        hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
        reconnect_delay: float = DEFAULT.reconnect_delay,
        ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo, io_timeout: float = DEFAULT.io_timeout,
        admin_timeout: float = DEFAULT.admin_timeout,
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
    ) -> Path:  # fmt: skip
        """Connect through another path, and return it.

        The keywords are options of this path alone. Raises as connect_multipath() does; on failure
        nothing has changed.
        """
        changes = given(locals())
        places = places_of([self.where, where], self._options, changes)
        if any(address_key(path.where) == address_key(places[1][0]) for path in self.paths):
            raise ValueError(f"{places[1][0].endpoint} is already a path")
        (path,) = await self._paths.connect(places[1:])
        return path

    async def remove_path(self, path: Path) -> None:
        """Disconnect a path; raise ValueError if it is not one of the subsystem, or the last."""
        if path not in self._paths.paths or len(self._paths.paths) == 1:
            raise ValueError(f"{path!r} is the last path of the subsystem, or not one of its paths")
        await self._paths.remove(path)

    # ---- the members of a controller ----

    @property
    def where(self) -> TransportId:
        """The address of the first path, and the NQN."""
        return self._paths.paths[0].where

    @property
    def options(self) -> ConnectOptions:
        """The options of all paths, without those in the URLs of single paths."""
        return self._options

    @property
    def state(self) -> State:
        """The best state of all paths."""
        if self._closing is not None:
            return State.CLOSED
        states = {path.state for path in self.paths}
        return next(state for state in State if state in states)

    def _controller(self) -> Controller:
        """Return a controller, for properties that all share: a live one, if any."""
        made = [path.controller for path in self.paths if path.controller is not None]
        if not made:
            raise ConnectionLost(f"no path to {self._paths.subnqn} was ever connected")
        return next((one for one in made if one.state is State.LIVE), made[0])

    @property
    def device(self) -> str:
        """The kind of device of a path: iwarp, roce or system."""
        return self._controller().device

    @property
    def identify(self) -> IdentifyController:
        """Identify Controller of one of the controllers."""
        return self._controller().identify

    @property
    def version(self) -> Version:
        """NVMe version (VS)."""
        return self._controller().version

    @property
    def queues(self) -> int:
        """Total I/O queues of all paths."""
        return sum(path.controller.queues for path in self.paths if path.controller is not None)

    @property
    def max_transfer(self) -> int:
        """Maximum bytes of one command, for all paths; longer transfers are split."""
        return self._paths.max_transfer

    @property
    def namespaces(self) -> list[MultipathNamespace]:
        """The active namespaces of all paths, by NSID."""
        return self._paths.heads()

    def namespace(self, nsid: int) -> MultipathNamespace:
        """Return a namespace; raise NvmeError (Invalid Namespace or Format) if no path has it."""
        return self._paths.head(nsid)

    def alloc(self, length: int) -> KernelMemory:
        """Return memory of length bytes, page aligned; close() it. It saves no copy here."""
        return KernelMemory(length)

    def register(self, buffer: Buffer) -> BorrowedMemory:
        """Return a writable buffer for transfers; close() it. It saves no copy here."""
        return BorrowedMemory(buffer)

    # ---- admin commands, to the controller of one path ----

    async def _ask(self, work: Callable[[Controller], Awaitable[T]]) -> T:
        """Return the answer of the first live controller, or of the next if it is lost."""
        losses = self._paths.losses("an admin command")
        while True:
            controller = await self._paths.live()
            try:
                return await work(controller)
            except QueueLost as lost:
                losses.add(lost)
            except ConnectionLost:
                if controller.state is State.LIVE:
                    raise

    async def identify_data(self, cns: int, nsid: int = 0, *, csi: int = 0) -> bytes:
        """Return 4096 bytes of Identify data of one controller."""
        return await self._ask(lambda one: one.identify_data(cns, nsid, csi=csi))

    async def log_page(self, lid: int, length: int, *, offset: int = 0, rae: bool = True) -> bytes:
        """Return length bytes of a log page of one controller."""
        return await self._ask(lambda one: one.log_page(lid, length, offset=offset, rae=rae))

    async def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0) -> int:
        """Return dword 0 of a feature's value, of one controller."""
        return await self._ask(lambda one: one.get_features(fid, nsid=nsid, sel=sel))

    async def set_features(self, fid: int, value: int, *, nsid: int = 0) -> int:
        """Set a feature (dword 11) on every path; return dword 0 of the first completion.

        A path that reconnects has a new controller, which gets the same value before commands use
        it. With nsid the feature belongs to the namespace, and is set once, through one path or, if
        that is lost, a different one. Raise NvmeError if a controller refuses.
        """
        if nsid:
            return await self._ask(lambda one: one.set_features(fid, value, nsid=nsid))
        return await self._paths.set_features(fid, value)

    async def refresh(self) -> None:
        """Read namespaces, their sizes and their ANA states again, through every live path."""
        living = [path.controller for path in self.paths if path.state is State.LIVE]
        work = [one.refresh() for one in living if one is not None]
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, ConnectionLost):
                raise result

    async def close(self) -> None:
        """Disconnect all paths; commands in flight fail. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._paths.end())
        await asyncio.shield(self._closing)
