# SPDX-License-Identifier: BSD-3-Clause
"""A connected controller: its namespaces, its events, and commands that survive lost connections.

Its Connection (connection.py) replaces a lost session; its Recovery (recovery.py) decides whether
commands wait meanwhile and are sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from nvmf.engine import HostMemory
from nvmf.initiator.base.arguments import memory_length, whole, writable
from nvmf.initiator.base.errors import ConnectionLost, NvmeError, OutcomeUnknown, QueueLost
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.retry import MAX_RETRIES, Losses
from nvmf.initiator.base.state import State
from nvmf.initiator.base.subscription import Subscription
from nvmf.initiator.base.telling import Telling
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client import inventory
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.bringup import first_session
from nvmf.initiator.client.connection import Connection
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.client.recovery import KeepCommands, Recovery
from nvmf.initiator.client.request import Data
from nvmf.initiator.client.roster import Roster
from nvmf.initiator.client.session import Session
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import IdentifyController
from nvmf.spec.properties import Version
from nvmf.spec.status import CODE_MASK, DNR, Status, StatusError

log = logging.getLogger(__name__)
if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")
_EVENTS_TOLD, _EVENT_PAUSE = 16, 10.0
"""Events that are logged at once, and seconds for each further one."""


class Controller:
    """A connected controller: make it with connect()."""

    def __init__(self, session: Session, recovery: Recovery | None = None) -> None:
        """recovery: what to do after a lost connection; None keeps the commands (KeepCommands)."""
        self._pool = session.place.pool
        self._recovery = recovery or KeepCommands()
        self.connection = Connection(session, self._recovery, self._load_namespaces, self._on_event)
        """Its sessions, and the state."""
        self.roster = Roster(
            self.where.subnqn, lambda nsid, *told: Namespace(self, self._pool, nsid, *told)
        )
        """Its namespaces."""
        self._identifying = asyncio.Lock()
        self._callbacks: list[Callable[[AsyncEvent], object]] = []
        self._telling = Telling(_EVENTS_TOLD, _EVENT_PAUSE)

    def __repr__(self) -> str:
        return f"<Controller {self.where.subnqn} at {self.where.endpoint}, {self.state.value}>"

    @classmethod
    async def connect(
        cls, where: TransportId, options: ConnectOptions, recovery: Recovery | None = None
    ) -> Self:
        """Connect; raises as bringup.first_session() does."""
        controller = cls(await first_session(where, options), recovery)
        await controller.connection.begin()
        return controller

    # ---- properties ----

    @property
    def where(self) -> TransportId:
        """Address and NQN of the controller."""
        return self.session.place.where

    @property
    def options(self) -> ConnectOptions:
        """The options of the connection."""
        return self.session.place.options

    @property
    def state(self) -> State:
        """Live, reconnecting, lost or closed."""
        return self.connection.state

    @property
    def reconnects(self) -> int:
        """How often the controller has reconnected."""
        return self.connection.reconnects

    @property
    def device(self) -> str:
        """The kind of device: iwarp, roce or system."""
        return self._pool.device.kind

    @property
    def identify(self) -> IdentifyController:
        """Identify Controller, as read at the last connection."""
        return self.session.identify

    @property
    def version(self) -> Version:
        """NVMe version (VS)."""
        return self.session.version

    @property
    def session(self) -> Session:
        """The current session, or the last one."""
        return self.connection.session

    @property
    def queues(self) -> int:
        """I/O queues that the controller granted."""
        return len(self.session.queues)

    @property
    def max_transfer(self) -> int:
        """Maximum bytes of one command; longer transfers are split."""
        return self.session.max_transfer

    @property
    def namespaces(self) -> list[Namespace]:
        """The active namespaces, by NSID."""
        return [found for _, found in sorted(self.roster.active.items())]

    def namespace(self, nsid: int) -> Namespace:
        """Return a namespace; raise NvmeError (Invalid Namespace or Format) if it is not active."""
        found = self.roster.active.get(whole("nsid", nsid))
        if found is None:
            raise NvmeError.of(
                "Identify", Status.INVALID_NAMESPACE_OR_FORMAT | DNR, nsid=nsid, io=True
            )
        return found

    def alloc(self, length: int) -> HostMemory:
        """Return registered memory of length bytes, for transfers without a copy; close() it."""
        return self._pool.device.alloc(memory_length(length))

    def register(self, buffer: Buffer) -> HostMemory:
        """Register a writable buffer, for transfers without a copy; close() the registration.

        ValueError if the buffer is closed or read-only.
        """
        with writable(buffer):
            return self._pool.device.register(buffer)

    def on_event(self, callback: Callable[[AsyncEvent], object]) -> Subscription[AsyncEvent]:
        """Call callback(event) for every asynchronous event, after the namespaces were read again.

        Call the result, or leave it as a context manager, to end that.
        """
        return Subscription(self._callbacks, callback)

    # ---- commands ----

    async def execute_io(
        self,
        sqe: bytes,
        name: str,
        data: Data | None = None,
        *,
        of: Namespace,
        lba: int | None = None,
        blocks: int | None = None,
    ) -> None:
        """Run an I/O command to its end, over reconnections; raise NvmeError if it fails."""
        retries, losses = 0, None
        while True:
            session = self.connection.usable or await self.connection.live()
            if of.replaced:
                await self.identify_again(of, name, lba, blocks)
                continue
            within = session.place.options.io_timeout
            queue = session.pick()
            try:
                sent = queue.execute_now(sqe, data, within=within, what=name)
                if sent is None:
                    done = await queue.execute(sqe, data, within=within, what=name)
                else:
                    done = await sent
            except QueueLost as lost:
                self._recovery.command_lost(lost)
                losses = losses or Losses(name)
                losses.add(lost)
                log.debug("%s of namespace %d is repeated: %s", name, of.nsid, lost)
                continue
            if not done.status:
                return
            error = NvmeError.of(
                name, done.status, dw0=done.dw0, io=True, nsid=of.nsid, lba=lba, blocks=blocks
            )
            error.repeated = losses is not None and losses.count > 0
            code = done.status & CODE_MASK
            if done.status & DNR or retries == MAX_RETRIES or code not in self._recovery.retried:
                raise error
            log.info("%s; attempt %d of %d follows", error, retries + 2, MAX_RETRIES + 1)
            await asyncio.sleep(0.01 * 2**retries)
            retries += 1

    async def execute_pair(
        self, pair: Sequence[tuple[bytes, Data]], name: str, *, of: Namespace, lba: int, blocks: int
    ) -> None:
        """Run two fused commands, once; raise NvmeError with the status of the one that failed.

        Raise OutcomeUnknown if the connection ends during them: they may have been done.
        """
        session = self.connection.usable or await self.connection.live()
        while of.replaced:
            await self.identify_again(of, name, lba, blocks)
            session = await self.connection.live()
        try:
            done = await session.pick().execute_pair(
                pair, within=self.options.io_timeout, what=name
            )
        except QueueLost as lost:
            raise OutcomeUnknown(
                f"{name}: the connection ended ({lost}), and whether it was done is not known: "
                f"read LBA {lba} to see"
            ) from None
        failed = [one for one in done if one.status]
        # If one half fails, the other is aborted; the reason is the status of the first.
        failed.sort(key=lambda one: one.status & CODE_MASK == Status.ABORTED_FAILED_FUSED)
        if failed:
            status, dw0, _ = failed[0]
            raise NvmeError.of(name, status, dw0=dw0, io=True, nsid=of.nsid, lba=lba, blocks=blocks)

    async def identify_again(
        self, of: Namespace, name: str, lba: int | None = None, blocks: int | None = None
    ) -> None:
        """Identify a namespace again if that failed; raise NvmeError if it cannot be used."""
        async with self._identifying:  # once for all commands that wait for it
            if self.roster.is_suspended(of):
                await self.look_again(of.nsid)
        of.require(name, lba, blocks)

    async def with_admin(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """Return the result of work, which starts again if the connection is lost or reset."""
        losses = Losses("an admin command")
        while True:
            session = self.connection.usable or await self.connection.live()
            try:
                return await work(session.admin)
            except QueueLost as lost:
                self._recovery.command_lost(lost)
                losses.add(lost)
            except NvmeError:
                if not session.resetting:  # a controller that is disabled refuses commands
                    raise

    async def identify_data(self, cns: int, nsid: int = 0, *, csi: int = 0) -> bytes:
        """Return 4096 bytes of Identify data."""
        return await self.with_admin(lambda admin: admin.identify(cns, nsid, csi=csi))

    async def log_page(self, lid: int, length: int, *, offset: int = 0, rae: bool = True) -> bytes:
        """Return length bytes of a log page. rae=False clears the event of the page."""
        return await self.with_admin(
            lambda admin: admin.log_page(lid, length, offset=offset, rae=rae)
        )

    async def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0) -> int:
        """Return dword 0 of a feature's value."""
        return await self.with_admin(lambda admin: admin.get_features(fid, nsid=nsid, sel=sel))

    async def set_features(self, fid: int, value: int, *, nsid: int = 0) -> int:
        """Set a feature (dword 11), and return dword 0 of the completion."""
        return await self.with_admin(lambda admin: admin.set_features(fid, value, nsid=nsid))

    async def refresh(self) -> None:
        """Read the list of namespaces and their sizes again."""
        await self.with_admin(lambda _: self._load_namespaces(self.session))

    async def look_again(self, nsid: int) -> None:
        """Read again whether a namespace is active, and its size."""
        await self.with_admin(lambda _: self._load_namespaces(self.session, {nsid}))

    async def reset(self) -> bool:
        """Reset the controller, as Linux does: disable it, disconnect, and connect again.

        Commands in flight are sent again afterwards. Returns False if it could not be disabled
        (CC.EN = 0, CSTS.RDY = 0), and was only disconnected. Raises ConnectionLost if it cannot be
        connected again.
        """
        return await self.connection.reset()

    async def reauthenticate(self) -> None:
        """Authenticate every queue again, with the keys that were given.

        Raise AuthenticationError if it fails: the controller then ends the connection.
        """
        await self.with_admin(lambda _: self.session.reauthenticate())

    # ---- namespaces and events ----

    async def _load_namespaces(self, session: Session, changed: set[int] | None = None) -> None:
        """Read the namespaces; changed: the known ones to read again, None for all."""
        if session.is_discovery and self.roster.active:
            raise ConnectionLost(f"{self.where.subnqn} is a discovery subsystem now")
        if not session.is_discovery:
            await self.roster.load(session.admin, session.identify.sn, changed)
        await self._recovery.namespaces_read(session)

    async def _read_about(self, session: Session, event: AsyncEvent) -> bytes:
        """Return the log page of an event; reading it allows the next event of its kind."""
        if await self._recovery.read_about(session, event):
            return b""
        return await inventory.read_about(session.admin, event)

    async def _on_event(self, session: Session, event: AsyncEvent) -> None:
        level = self._telling.level(logging.INFO)
        log.log(
            level,
            "%s: asynchronous event: type %d, information %02xh, log page %02xh",
            self.where.subnqn,
            event.type,
            event.info,
            event.lid,
        )
        try:
            page = await self._read_about(session, event)
            if inventory.tells_of(event):
                await self._load_namespaces(session, inventory.changed(event, page))
        except NvmeError as error:
            level = logging.WARNING if level == logging.INFO else level
            log.log(level, "%s: after an event: %s", self.where.subnqn, error)
        except QueueLost:
            raise
        except (StatusError, ConnectionLost) as error:  # the controller sent invalid data
            session.lose(f"after an event: {error}")
            return
        for callback in list(self._callbacks):
            try:
                callback(event)
            except Exception:
                log.exception("%s: a callback of an event failed", self.where.subnqn)

    # ---- the end ----

    async def close(self) -> None:
        """Shut the controller down and disconnect; commands in flight fail. Idempotent.

        If the caller is cancelled, it continues to the end.
        """
        await self.connection.close()
