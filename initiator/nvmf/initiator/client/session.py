# SPDX-License-Identifier: BSD-3-Clause
"""One association with a controller: its queues, once they are connected, to the end.

bringup.py makes sessions.  A session does not mend itself: when a queue is lost, `lost` says why,
and the controller closes the session and asks for another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from nvmf.engine import HostQueue
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.identity import HostIdentity
from nvmf.initiator.base.limits import MAX_TRANSFER
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.authentication import Authenticator
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.queue import Queue, finished
from nvmf.spec import commands
from nvmf.spec.identify import IdentifyController, IdentifyNvmController
from nvmf.spec.properties import Cap, Cc, Csts, Property, Version
from nvmf.spec.status import StatusError

SHUTDOWN_SECONDS = 1.0
"""How long a controller may take to shut down before it is left."""
_MOST_TRANSFER = (1 << 24) - 1
"""Bytes that a keyed SGL descriptor can say, whatever MDTS does."""
T = TypeVar("T")


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
    """Queues of one association: made by bringup.new_session()."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lost: asyncio.Future[Lost] = asyncio.get_running_loop().create_future()
        self.cntlid = 0
        self.cap = Cap()
        self.version = Version()
        self.identify = IdentifyController()
        self.nvm = IdentifyNvmController()
        self.queues: list[Queue] = []
        self.cc = Cc()
        """What was last set of Controller Configuration."""
        self._all: list[Queue] = []
        self._next = 0
        self.authenticator = Authenticator(place.where, place.identity.nqn, place.options)

    admin_queue: Queue
    admin: Admin

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

    # ---- queues ----

    def add_queue(self, host: HostQueue, *, in_capsule: bool) -> Queue:
        """Take over a queue that was connected: the session is lost with it, and closes it."""
        queue = Queue(host, self._on_lost, in_capsule=in_capsule)
        self._all.append(queue)
        return queue

    def commands_on(self, queue: Queue) -> Admin:
        """Commands with data, on any of the queues."""
        return Admin(queue, self.place.pool, self.place.options.admin_timeout)

    async def until(self, reached: Callable[[Csts], bool]) -> None:
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

    async def reauthenticate(self) -> None:
        """Authenticate again: the admin queue, and each I/O queue whose Connect required it.

        AuthenticationError: one failed.
        """
        await self.authenticator.authenticate(self.admin, 0)
        for queue in self.queues:
            if self.authenticator.required(queue.qid):
                await self.authenticator.authenticate(self.commands_on(queue), queue.qid)

    # ---- the end ----

    def _on_lost(self, queue: Queue, reason: str, timed_out: bool) -> None:
        about = "" if reason.startswith("queue ") else f"queue {queue.qid}: "
        self.lose(f"{about}{reason}", timed_out=timed_out)

    def lose(self, reason: str, *, timed_out: bool = False) -> None:
        """End the use of the session; the first reason counts."""
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
        cc = Cc(en=1, css=self.cc.css, shn=1, iosqes=6, iocqes=4)
        await self.admin.property_set(Property.CC, cc.encode())
        await self.until(lambda csts: csts.shst == 2)

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
