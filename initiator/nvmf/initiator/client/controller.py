# SPDX-License-Identifier: BSD-3-Clause
"""A controller, for as long as its user wants it: over lost connections and back.

A supervisor task waits for the session to be lost, and reconnects with Linux's timers; meanwhile
commands wait, and those that were in flight are submitted again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from nvmf.engine import HostMemory
from nvmf.initiator.base.arguments import whole, writable
from nvmf.initiator.base.background import begin, failure
from nvmf.initiator.base.errors import ConnectionLost, NvmeError, OutcomeUnknown, QueueLost
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.retry import MAX_RETRIES, RETRIED, Losses
from nvmf.initiator.base.state import State
from nvmf.initiator.base.subscription import Subscription
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client import inventory
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.bringup import first_session, new_session
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.client.recovery import reconnect
from nvmf.initiator.client.request import Data
from nvmf.initiator.client.roster import Roster
from nvmf.initiator.client.session import Session
from nvmf.initiator.client.upkeep import async_events, keep_alive
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import IdentifyController
from nvmf.spec.properties import Version
from nvmf.spec.status import CODE_MASK, DNR, Status, StatusError

log = logging.getLogger(__name__)
if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class Controller:
    """A connected controller: make it with connect()."""

    _retried: frozenset[int] = RETRIED

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pool = session.place.pool
        self._state = State.LIVE
        self._why: str = ""
        self._changed = asyncio.Event()
        self._roster = Roster(
            self.where.subnqn, lambda nsid, *told: Namespace(self, self._pool, nsid, *told)
        )
        self._callbacks: list[Callable[[AsyncEvent], object]] = []
        self._since = asyncio.get_running_loop().time()
        self._upkeep: list[asyncio.Task[None]] = []
        self._supervisor: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.reconnects = 0
        """How often the controller has reconnected."""

    def __repr__(self) -> str:
        return f"<Controller {self.where.subnqn} at {self.where.endpoint}, {self.state.value}>"

    @classmethod
    async def connect(cls, where: TransportId, options: ConnectOptions) -> Self:
        """Connect; raises as bringup.first_session() does."""
        session = await first_session(where, options)
        controller = cls(session)
        try:
            await session.guard(controller._load_namespaces(session))
        except BaseException:
            await session.close()
            controller._pool.close()
            raise
        controller._begin_upkeep()
        controller._supervisor = asyncio.create_task(controller._supervise())
        return controller

    # ---- what it is ----

    @property
    def where(self) -> TransportId:
        """Its address and NQN."""
        return self._session.place.where

    @property
    def options(self) -> ConnectOptions:
        """How it was connected."""
        return self._session.place.options

    @property
    def state(self) -> State:
        """Live, reconnecting, lost or closed."""
        if self._state is State.LIVE and self._session.lost.done():
            return State.RECONNECTING
        return self._state

    @property
    def device(self) -> str:
        """The kind of device: iwarp or system."""
        return self._pool.device.kind

    @property
    def identify(self) -> IdentifyController:
        """Identify Controller, as it was at the last connection."""
        return self._session.identify

    @property
    def version(self) -> Version:
        """NVMe version (VS)."""
        return self._session.version

    @property
    def session(self) -> Session:
        """The session of now, or the last one."""
        return self._session

    @property
    def queues(self) -> int:
        """I/O queues that the controller granted."""
        return len(self._session.queues)

    @property
    def max_transfer(self) -> int:
        """Bytes of one command at most; longer transfers are split."""
        return self._session.max_transfer

    @property
    def namespaces(self) -> list[Namespace]:
        """The active namespaces, by NSID."""
        return [found for _, found in sorted(self._roster.active.items())]

    def namespace(self, nsid: int) -> Namespace:
        """One namespace; NvmeError (Invalid Namespace or Format) where it is not active."""
        found = self._roster.active.get(whole("nsid", nsid))
        if found is None:
            raise NvmeError.of(
                "Identify", Status.INVALID_NAMESPACE_OR_FORMAT | DNR, nsid=nsid, io=True
            )
        return found

    def alloc(self, length: int) -> HostMemory:
        """Registered memory of length bytes, for transfers without a copy; close() it."""
        return self._pool.device.alloc(whole("length", length))

    def register(self, buffer: Buffer) -> HostMemory:
        """Register a writable buffer, for transfers without a copy; close() the registration.

        ValueError if the buffer is closed or read-only.
        """
        with writable(buffer):
            return self._pool.device.register(buffer)

    def on_event(self, callback: Callable[[AsyncEvent], object]) -> Subscription:
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
        """Run an I/O command to its end, over reconnections; NvmeError where it fails."""
        within = self.options.io_timeout
        retries, losses = 0, Losses(name)
        while True:
            session = self._session if self.state is State.LIVE else await self._live()
            of.require(name, lba, blocks)
            try:
                done = await session.pick().execute(sqe, data, within=within, what=name)
            except QueueLost as lost:
                self._passed_on(lost)
                losses.add(lost)
                continue
            if not done.status:
                return
            code = done.status & CODE_MASK
            if done.status & DNR or retries == MAX_RETRIES or code not in self._retried:
                raise NvmeError.of(
                    name, done.status, dw0=done.dw0, io=True, nsid=of.nsid, lba=lba, blocks=blocks
                )
            await asyncio.sleep(0.01 * 2**retries)
            retries += 1

    async def execute_pair(
        self, pair: Sequence[tuple[bytes, Data]], name: str, *, of: Namespace, lba: int, blocks: int
    ) -> None:
        """Run two fused commands, once; NvmeError with the status of the one that failed.

        OutcomeUnknown where the connection ends under them: they may have been done.
        """
        session = self._session if self.state is State.LIVE else await self._live()
        of.require(name, lba, blocks)
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
        # One half fails because the other does: that one has the reason.
        failed.sort(key=lambda one: one.status & CODE_MASK == Status.ABORTED_FAILED_FUSED)
        if failed:
            status, dw0, _ = failed[0]
            raise NvmeError.of(name, status, dw0=dw0, io=True, nsid=of.nsid, lba=lba, blocks=blocks)

    async def with_admin(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """The result of work, which is done again from the start where the connection is lost."""
        losses = Losses("an admin command")
        while True:
            session = self._session if self.state is State.LIVE else await self._live()
            try:
                return await work(session.admin)
            except QueueLost as lost:
                losses.add(lost)

    async def identify_data(self, cns: int, nsid: int = 0, *, csi: int = 0) -> bytes:
        """4096 bytes of Identify data."""
        return await self.with_admin(lambda admin: admin.identify(cns, nsid, csi=csi))

    async def log_page(self, lid: int, length: int, *, offset: int = 0, rae: bool = True) -> bytes:
        """length bytes of a log page.  rae False clears the event that the page is about."""
        return await self.with_admin(
            lambda admin: admin.log_page(lid, length, offset=offset, rae=rae)
        )

    async def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0) -> int:
        """Dword 0 of a feature's value."""
        return await self.with_admin(lambda admin: admin.get_features(fid, nsid=nsid, sel=sel))

    async def set_features(self, fid: int, value: int, *, nsid: int = 0) -> int:
        """Set a feature (dword 11); dword 0 of the completion."""
        return await self.with_admin(lambda admin: admin.set_features(fid, value, nsid=nsid))

    async def refresh(self) -> None:
        """Read the list of namespaces and their sizes again."""
        await self.with_admin(lambda _: self._load_namespaces(self._session))

    async def look_again(self, nsid: int) -> None:
        """Read again whether a namespace is active, and its size."""
        await self.with_admin(lambda _: self._load_namespaces(self._session, {nsid}))

    async def reauthenticate(self) -> None:
        """Authenticate every queue again, with the keys that were given.

        AuthenticationError where it fails: the controller then ends the connection.
        """
        await self.with_admin(lambda _: self._session.reauthenticate())

    def _announce(self) -> None:
        """Wake who waits for another state."""
        self._changed.set()

    def _passed_on(self, lost: QueueLost) -> None:
        """Raise what is not for this controller to try again."""

    async def _live(self) -> Session:
        while self.state is not State.LIVE:
            if self._state in (State.LOST, State.CLOSED):
                raise ConnectionLost(self._why)
            self._changed.clear()
            await self._changed.wait()
        return self._session

    # ---- namespaces and events ----

    async def _load_namespaces(self, session: Session, changed: set[int] | None = None) -> None:
        """Read which namespaces there are, and what they are (changed: those of before only)."""
        if session.is_discovery and self._roster.active:
            raise ConnectionLost(f"{self.where.subnqn} is a discovery subsystem now")
        if not session.is_discovery:
            await self._roster.load(session.admin, session.identify.sn, changed)

    async def _read_about(self, session: Session, event: AsyncEvent) -> bytes:
        """Read the log page of an event, which allows the next one of its kind."""
        return await inventory.read_about(session.admin, event)

    async def _on_event(self, session: Session, event: AsyncEvent) -> None:
        log.info("%s: asynchronous event %s", self.where.subnqn, event)
        try:
            page = await self._read_about(session, event)
            if inventory.tells_of(event):
                await self._load_namespaces(session, inventory.changed(event, page))
        except NvmeError as error:
            log.warning("%s: after an event: %s", self.where.subnqn, error)
        except QueueLost:
            raise
        except (StatusError, ConnectionLost) as error:  # what it tells cannot be
            session.lose(f"after an event: {error}")
            return
        for callback in list(self._callbacks):
            try:
                callback(event)
            except Exception:
                log.exception("%s: a callback of an event failed", self.where.subnqn)

    def _begin_upkeep(self) -> None:
        session = self._session
        self._upkeep = [
            begin(keep_alive(session), "Keep Alive", session.lose),
            begin(async_events(session, self._on_event), "the handling of an event", session.lose),
        ]

    async def _end_upkeep(self) -> None:
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        self._upkeep = []

    # ---- the connection's life ----

    async def _supervise(self) -> None:
        """Connect again whenever the session is lost, until that fails for good."""
        try:
            await self._keep_connected()
        except Exception as error:  # those who wait for the controller hear of it
            self._why = failure("the recovery of the connection", error)
            log.exception("%s: %s", self.where.subnqn, self._why)
            self._state = State.LOST
            self._announce()
            await self._session.close(self._why)

    async def _keep_connected(self) -> None:
        while True:
            lost = await asyncio.shield(self._session.lost)
            log.warning("%s: connection lost: %s", self.where.subnqn, lost.reason)
            self._state = State.RECONNECTING
            await self._end_upkeep()
            await self._session.close()
            lived = asyncio.get_running_loop().time() - self._since
            try:
                session = await reconnect(self._attempt, self._session.place, lost, lived)
            except ConnectionLost as error:
                self._why = str(error)
                log.error("%s", self._why)
                self._state = State.LOST
                self._announce()
                return
            self._session = session
            self._since = asyncio.get_running_loop().time()
            self._state = State.LIVE
            self.reconnects += 1
            self._begin_upkeep()
            self._announce()
            log.warning("%s: connected again", self.where.subnqn)

    async def _attempt(self) -> Session:
        session = await new_session(self._session.place)
        try:
            await session.guard(self._load_namespaces(session))
        except BaseException:
            await session.close()
            raise
        return session

    async def close(self) -> None:
        """Shut the controller down and disconnect; what is in flight fails.  Idempotent.

        Goes on to the end where the caller is cancelled.
        """
        if self._closing is None:
            live = self.state is State.LIVE
            self._state = State.CLOSED
            self._why = "the controller was closed"
            self._announce()
            self._closing = asyncio.create_task(self._close(live))
        await asyncio.shield(self._closing)

    async def _close(self, live: bool) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await self._end_upkeep()
        try:
            if live:
                await self._session.shutdown()
        finally:
            try:
                await self._session.close("the controller was closed")
            finally:
                self._pool.close()
