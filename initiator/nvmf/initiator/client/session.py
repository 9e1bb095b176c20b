# SPDX-License-Identifier: BSD-3-Clause
"""One association with a controller: its queues, from their connection to the end.

bringup.py makes sessions. A session does not repair itself: if a queue is lost, `lost` has the
reason, and the connection closes the session and makes a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from nvmf.engine import HostQueue
from nvmf.initiator.base.background import finished
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.identity import HostIdentity
from nvmf.initiator.base.limits import MAX_TRANSFER
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.authentication import Authenticator
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.queue import Queue
from nvmf.spec import commands
from nvmf.spec.identify import IdentifyController, IdentifyNvmController
from nvmf.spec.properties import Cap, Cc, Csts, Property, Version, ready_timeout_seconds
from nvmf.spec.status import StatusError

log = logging.getLogger(__name__)
SHUTDOWN_SECONDS = 1.0
"""Maximum seconds to wait for the shutdown of a controller."""
_MOST_TRANSFER = (1 << 24) - 1
"""Maximum bytes of a keyed SGL descriptor, also if MDTS is more."""
T = TypeVar("T")


class Lost(NamedTuple):
    """Why a session ended."""

    reason: str
    timed_out: bool
    """A command was not answered: the controller may still execute it."""
    reset: bool = False
    """This host has reset the controller."""


@dataclass(frozen=True, slots=True)
class Place:
    """The properties that all sessions of a controller have in common."""

    where: TransportId
    identity: HostIdentity
    options: ConnectOptions
    pool: BufferPool


class Session:
    """Queues of one association: made by bringup.new_session()."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.lost: asyncio.Future[Lost] = asyncio.get_running_loop().create_future()
        self.on_lost: Callable[[], None] | None = None
        """Called when the session is lost."""
        self.resetting = False
        """The controller is being reset, after which the session is lost."""
        self.cntlid = 0
        self.cap = Cap()
        self.version = Version()
        self.identify = IdentifyController()
        self.nvm = IdentifyNvmController()
        self.queues: list[Queue] = []
        self.cc = Cc()
        """The last value of Controller Configuration."""
        self._all: list[Queue] = []
        self._next = 0
        self.authenticator = Authenticator(place.where, place.identity.nqn, place.options)

    admin_queue: Queue
    admin: Admin

    async def guard(self, work: Coroutine[object, object, T]) -> T:
        """Return the result of work; if the session is lost, it is closed, and work fails."""
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

    # ---- properties ----

    @property
    def is_discovery(self) -> bool:
        """Whether the controller is a discovery controller, which has no I/O queues."""
        return self.identify.cntrltype == 2 or self.place.where.is_discovery

    @cached_property
    def max_transfer(self) -> int:
        """Maximum bytes of one command; available after Identify Controller."""
        found = self.identify.max_transfer_bytes(self.cap.mpsmin) or MAX_TRANSFER
        return min(found, _MOST_TRANSFER)

    @property
    def completed(self) -> int:
        """Commands completed on all queues."""
        return sum(queue.completed for queue in self._all)

    def pick(self) -> Queue:
        """Return the next I/O queue in turn, or the one with the fewest commands."""
        if not self.queues:
            raise ConnectionLost(f"{self.place.where.subnqn} is a discovery subsystem now")
        if len(self.queues) == 1:
            return self.queues[0]
        self._next = (self._next + 1) % len(self.queues)
        queue = self.queues[self._next]
        return queue if queue.outstanding == 0 else min(self.queues, key=_outstanding)

    # ---- queues ----

    def add_queue(self, host: HostQueue) -> Queue:
        """Add a connected queue; the session closes it, and is lost if the queue is lost."""
        queue = Queue(host, self._on_lost)
        self._all.append(queue)
        return queue

    def commands_on(self, queue: Queue) -> Admin:
        """Return an object that runs commands with data on a queue."""
        return Admin(queue, self.place.pool.admin, self.place.options.admin_timeout)

    async def until(self, reached: Callable[[Csts], bool]) -> None:
        """Poll CSTS until reached() accepts it; there is no event for changes."""
        pause = 0.001
        while True:
            csts = Csts.decode(await self.admin.property_get(Property.CSTS))
            if csts.cfs:
                raise ConnectionLost("the controller reports a fatal error (CSTS.CFS)")
            if reached(csts):
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)

    async def reset(self) -> bool:
        """Disable the controller (CC.EN = 0), and end the session; return whether it was disabled.

        The I/O queues are disconnected first, as in Linux: a controller that is disabled may
        answer the commands in flight with Command Sequence Error, and they are to be sent again.
        False: the connection ended before, or CSTS.RDY did not become 0 in time; as in Linux, the
        queues are disconnected all the same.
        """
        self.resetting = True
        try:
            if await finished([queue.close("the controller was reset") for queue in self.queues]):
                raise asyncio.CancelledError
            async with asyncio.timeout(ready_timeout_seconds(self.cap)):
                cc = Cc(css=self.cc.css, iosqes=6, iocqes=4)
                await self.admin.property_set(Property.CC, cc.encode())
                await self.until(lambda csts: not csts.rdy)
            return True
        except (TimeoutError, StatusError, ConnectionLost) as error:
            why = str(error) or "it stays ready"
            log.warning("%s: cannot disable the controller: %s", self.place.where.subnqn, why)
            return False
        finally:
            self.lose("the controller was reset")

    async def reauthenticate(self) -> None:
        """Authenticate again: the admin queue, and each I/O queue whose Connect required it.

        Raises AuthenticationError if one fails.
        """
        await self.authenticator.authenticate(self.admin, 0)
        for queue in self.queues:
            if self.authenticator.required(queue.qid):
                await self.authenticator.authenticate(self.commands_on(queue), queue.qid)

    # ---- the end ----

    def _on_lost(self, queue: Queue, reason: str, timed_out: bool) -> None:
        if self.resetting and queue is not self.admin_queue:
            return  # it is being disconnected
        about = "" if reason.startswith("queue ") else f"queue {queue.qid}: "
        self.lose(f"{about}{reason}", timed_out=timed_out)

    def lose(self, reason: str, *, timed_out: bool = False) -> None:
        """End the session; the first reason is kept."""
        if not self.lost.done():
            self.lost.set_result(Lost(reason, timed_out, self.resetting))
            if self.on_lost is not None:
                self.on_lost()

    async def shutdown(self) -> None:
        """Shut the controller down (CC.SHN) and send Disconnect.  Bounded in time; never fails."""
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
        """Disconnect all queues; commands in flight fail with QueueLost.

        If the caller is cancelled, CancelledError is raised once all are closed.
        """
        self.lose(reason)
        why = self.lost.result().reason
        if await finished([queue.close(why) for queue in self._all]):
            raise asyncio.CancelledError


def _outstanding(queue: Queue) -> int:
    return queue.outstanding
