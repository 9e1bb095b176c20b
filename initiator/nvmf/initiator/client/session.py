# SPDX-License-Identifier: BSD-3-Clause
"""One association with a controller: its queues, from Connect to the end.

Bring-up is that of Base 2.0, 3.5.2, as the Linux host does it: Connect, CAP, CC.EN, CSTS.RDY, VS,
Identify Controller, Number of Queues, the I/O queues.  A session does not mend itself: when a queue
is lost, `lost` says why, and the controller closes the session and opens another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from nvmf.engine import HostQueue
from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.identity import HostIdentity
from nvmf.initiator.base.limits import LARGEST, MAX_TRANSFER
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.authentication import Authenticator
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.queue import Data, Queue, finished
from nvmf.spec import commands
from nvmf.spec.fabrics import DYNAMIC_CNTLID, ConnectData, ConnectResult
from nvmf.spec.features import AsyncEvents, NumberOfQueues
from nvmf.spec.identify import IdentifyController, IdentifyNvmController, Sgls
from nvmf.spec.opcodes import Cns, Csi, FeatureId
from nvmf.spec.properties import Cap, Cc, Crto, Csts, Property, Version, ready_timeout_seconds
from nvmf.spec.status import StatusError

ADMIN_QUEUE_SIZE = 32
"""Entries of the admin queue: what Linux uses, and nvmet takes at most."""
MIN_QUEUE = 32
"""Entries of an I/O queue at least: nvmet never answers large Reads on smaller ones."""
MAX_READY_SECONDS = 600.0
"""How long a controller may take to become ready, whatever it says: CRTO can say nine hours."""
SHUTDOWN_SECONDS = 1.0
"""How long a controller may take to shut down before it is left."""
_MOST_TRANSFER = (1 << 24) - 1
"""Bytes that a keyed SGL descriptor can say, whatever MDTS does."""
T = TypeVar("T")

WANTED_EVENTS = (
    AsyncEvents.NAMESPACE_ATTRIBUTE | AsyncEvents.ANA_CHANGE | AsyncEvents.DISCOVERY_CHANGE
)
_CSS_NVM, _CSS_ALL, _CSS_ADMIN_ONLY = 0, 6, 7


class Lost(NamedTuple):
    """Why a session ended."""

    reason: str
    timed_out: bool
    """A command was not answered: the controller may be at it still."""


@dataclass(frozen=True, slots=True)
class Place:
    """What stays the same over the sessions of a controller."""

    where: TransportId
    identity: HostIdentity
    options: ConnectOptions
    pool: BufferPool


class Session:
    """Queues of one association.  Make it with open()."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lost: asyncio.Future[Lost] = asyncio.get_running_loop().create_future()
        self.cntlid = 0
        self.cap = Cap()
        self.version = Version()
        self.identify = IdentifyController()
        self.nvm = IdentifyNvmController()
        self.queues: list[Queue] = []
        self._cc = Cc()
        self._all: list[Queue] = []
        self._next = 0
        self.authenticator = Authenticator(place.where, place.identity.nqn, place.options)

    admin_queue: Queue
    admin: Admin

    @classmethod
    async def open(cls, place: Place) -> Session:
        """Connect and enable; raises ConnectError, NvmeError or ConnectionLost.

        ValueError where a key file cannot be used.
        """
        session = cls(place)
        try:
            await session.guard(session._bring_up())
        except BaseException:
            await session.close()
            raise
        return session

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work; where the session is lost under it, it is closed, and work fails."""
        task = asyncio.ensure_future(work)
        try:
            waiting: set[asyncio.Future[Any]] = {task, self.lost}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await self.close()
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise

    async def _bring_up(self) -> None:
        await self._open_admin()
        await self._enable()
        await self._identify()
        events = self.identify.oaes & WANTED_EVENTS
        if events:  # before anything is read that an event may tell the change of
            await self.admin.set_features(FeatureId.ASYNC_EVENT_CONFIGURATION, events)
        if not self.is_discovery:
            await self._open_io()

    # ---- what it is ----

    @property
    def is_discovery(self) -> bool:
        """A discovery controller has no I/O queues."""
        return self.identify.cntrltype == 2 or self.place.where.is_discovery

    @property
    def max_transfer(self) -> int:
        """Bytes that one command may transfer."""
        found = self.identify.max_transfer_bytes(self.cap.mpsmin) or MAX_TRANSFER
        return min(found, _MOST_TRANSFER)

    @property
    def completed(self) -> int:
        """Commands that were answered on any of the queues."""
        return sum(queue.completed for queue in self._all)

    def pick(self) -> Queue:
        """The next I/O queue in turn, unless another has less to do."""
        if not self.queues:
            raise ConnectionLost(f"{self.place.where.subnqn} is a discovery subsystem now")
        self._next = (self._next + 1) % len(self.queues)
        queue = self.queues[self._next]
        return queue if queue.outstanding == 0 else min(self.queues, key=_outstanding)

    # ---- bring-up ----

    async def _connect(self, qid: int, size: int, in_capsule: int) -> Queue:
        place = self.place
        cancel = os.eventfd(0)
        connecting = asyncio.ensure_future(
            asyncio.to_thread(
                HostQueue,
                place.pool.device,
                traddr=place.where.traddr,
                trsvcid=place.where.trsvcid,
                host_traddr=place.options.host_traddr,
                qid=qid,
                size=size,
                cntlid=self.cntlid if qid else 0,
                in_capsule=in_capsule,
                timeout_ms=round(place.options.connect_timeout * 1000),
                cancel=cancel,
            )
        )
        connecting.add_done_callback(lambda _: os.close(cancel))
        try:
            host = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if not connecting.done():  # whose thread is waited for where the loop ends
                os.eventfd_write(cancel, 1)
            connecting.add_done_callback(_close_when_done)
            raise
        queue = Queue(host, self._on_lost, in_capsule=in_capsule > 0)
        self._all.append(queue)
        return queue

    async def _fabrics_connect(self, queue: Queue, size: int) -> ConnectResult:
        place = self.place
        sqe = commands.connect(
            queue.qid,
            size - 1,
            kato_ms=0 if queue.qid else place.options.kato_ms,
            disable_sq_flow_control=place.options.disable_sqflow,
        )
        data = ConnectData(
            hostid=place.identity.id.bytes,
            cntlid=self.cntlid if queue.qid else DYNAMIC_CNTLID,
            subnqn=place.where.subnqn,
            hostnqn=place.identity.nqn,
        ).encode()
        with await place.pool.take(len(data)) as slot:
            slot.view[: len(data)] = data
            done = await queue.connect(
                sqe,
                Data(slot.memory, slot.offset, len(data), True, slot),
                within=place.options.admin_timeout,
            )
        if done.status:
            error = NvmeError.of("Connect", done.status, dw0=done.dw0)
            of = f"queue {queue.qid}" if queue.qid else place.where.subnqn
            error.detail = f"Connect to {of} at {place.where.endpoint} failed"
            raise error
        return ConnectResult.decode(done.dw0)

    async def _open_admin(self) -> None:
        self.admin_queue = await self._connect(0, ADMIN_QUEUE_SIZE, 0)
        self.admin = Admin(self.admin_queue, self.place.pool, self.place.options.admin_timeout)
        result = await self._fabrics_connect(self.admin_queue, ADMIN_QUEUE_SIZE)
        self.cntlid = result.cntlid
        await self.authenticator.connected(self.admin, 0, result)

    async def _enable(self) -> None:
        self.cap = cap = Cap.decode(await self.admin.property_get(Property.CAP, 8))
        if cap.mpsmin:
            raise ConnectionLost(
                f"the controller's smallest page is {4 << cap.mpsmin} KiB (CAP.MPSMIN); "
                "this client uses 4 KiB"
            )
        crto = None
        if cap.crwms:
            with contextlib.suppress(StatusError):
                crto = Crto.decode(await self.admin.property_get(Property.CRTO))
        css = _CSS_ALL if cap.css_sets else _CSS_NVM if cap.css_nvm else _CSS_ADMIN_ONLY
        if not (cap.css_sets or cap.css_nvm or cap.css_none):
            css = _CSS_NVM  # older discovery controllers name no command set
        self._cc = Cc(en=1, css=css, iosqes=6, iocqes=4)
        await self.admin.property_set(Property.CC, self._cc.encode())
        seconds = min(ready_timeout_seconds(cap, crto), MAX_READY_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._until(lambda csts: bool(csts.rdy))
        except TimeoutError:
            raise ConnectionLost(
                f"the controller did not become ready (CSTS.RDY) within {seconds:g} s"
            ) from None
        self.version = Version.decode(await self.admin.property_get(Property.VS))

    async def _until(self, reached: Callable[[Csts], bool]) -> None:
        """Poll CSTS; no property tells when it changes."""
        pause = 0.001
        while True:
            csts = Csts.decode(await self.admin.property_get(Property.CSTS))
            if csts.cfs:
                raise ConnectionLost("the controller reports a fatal error (CSTS.CFS)")
            if reached(csts):
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)

    async def _identify(self) -> None:
        data = await self.admin.identify(Cns.CONTROLLER)
        self.identify = identify = IdentifyController.decode(data)
        for bad, sentence in (
            (
                identify.cntlid != self.cntlid,
                f"Identify names controller {identify.cntlid}, Connect {self.cntlid}",
            ),
            (
                not self.is_discovery and not identify.sgls & Sgls.KEYED,
                "the controller takes no keyed SGLs (SGLS), which RDMA needs",
            ),
            (
                not self.is_discovery and identify.ioccsz < 4,
                f"the controller's command capsule has {identify.ioccsz * 16} bytes (IOCCSZ), "
                "less than a command",
            ),
            (
                not self.is_discovery and identify.iorcsz < 1,
                "the controller's response capsule is smaller than a completion (IORCSZ)",
            ),
        ):
            if bad:
                raise ConnectionLost(f"{self.place.where.subnqn}: {sentence}")
        if not self.is_discovery and self.cap.css_sets:
            with contextlib.suppress(StatusError):  # optional before NVMe 2.0
                data = await self.admin.identify(Cns.CSI_CONTROLLER, csi=Csi.NVM)
                self.nvm = IdentifyNvmController.decode(data)

    async def _open_io(self) -> None:
        options, identify = self.place.options, self.identify
        done = await self.admin.run(
            commands.set_number_of_queues(options.queues), "Set Features (Number of Queues)"
        )
        granted = NumberOfQueues.decode(done.dw0)
        count = min(options.queues, granted.nsq + 1, granted.ncq + 1)
        size = min(max(options.queue_depth, MIN_QUEUE), self.cap.mqes + 1)
        if identify.maxcmd:
            size = min(size, identify.maxcmd)
        in_capsule = 0
        if options.in_capsule and identify.sgls & Sgls.OFFSET and not identify.icdoff:
            in_capsule = min(identify.in_capsule_bytes, LARGEST)
        for qid in range(1, count + 1):
            queue = await self._connect(qid, max(size, 2), in_capsule)
            result = await self._fabrics_connect(queue, max(size, 2))
            await self.authenticator.connected(self._commands(queue), qid, result)
            self.queues.append(queue)

    def _commands(self, queue: Queue) -> Admin:
        """Commands with data, on a queue that is not the admin queue."""
        return Admin(queue, self.place.pool, self.place.options.admin_timeout)

    async def reauthenticate(self) -> None:
        """Authenticate again: the admin queue, and each I/O queue whose Connect required it.

        AuthenticationError: one failed.
        """
        await self.authenticator.authenticate(self.admin, 0)
        for queue in self.queues:
            if self.authenticator.required(queue.qid):
                await self.authenticator.authenticate(self._commands(queue), queue.qid)

    # ---- the end ----

    def _on_lost(self, queue: Queue, reason: str, timed_out: bool) -> None:
        about = "" if reason.startswith("queue ") else f"queue {queue.qid}: "
        self.lose(f"{about}{reason}", timed_out=timed_out)

    def lose(self, reason: str, *, timed_out: bool = False) -> None:
        """The session is of no use any more: the first reason counts."""
        if not self.lost.done():
            self.lost.set_result(Lost(reason, timed_out))

    async def shutdown(self) -> None:
        """Tell the controller: a normal shutdown (CC.SHN) and Disconnect.  Bounded; never fails."""
        if self.lost.done():
            return
        with contextlib.suppress(TimeoutError, StatusError, ConnectionLost):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await self._shutdown()

    async def _shutdown(self) -> None:
        if self.identify.ofcs & 1:
            leaving = [
                queue.execute(commands.disconnect(), within=SHUTDOWN_SECONDS, what="Disconnect")
                for queue in self.queues
            ]
            await asyncio.gather(*leaving, return_exceptions=True)
        cc = Cc(en=1, css=self._cc.css, shn=1, iosqes=6, iocqes=4)
        await self.admin.property_set(Property.CC, cc.encode())
        await self._until(lambda csts: csts.shst == 2)

    async def close(self, reason: str = "the controller was closed") -> None:
        """Disconnect all queues; what is in flight fails with QueueLost.

        Where the caller is cancelled, it is so once all are closed.
        """
        self.lose(reason)
        why = self.lost.result().reason
        if await finished([queue.close(why) for queue in self._all]):
            raise asyncio.CancelledError


def _outstanding(queue: Queue) -> int:
    return queue.outstanding


def _close_when_done(connecting: asyncio.Future[HostQueue]) -> None:
    """Nobody waits for the queue any more: close it as soon as there is one."""
    if not connecting.cancelled() and connecting.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, connecting.result().close)
