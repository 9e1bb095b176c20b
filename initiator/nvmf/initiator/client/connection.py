# SPDX-License-Identifier: BSD-3-Clause
"""The connection of a controller: one session after another, until it is closed or lost for good.

A supervisor task waits for the session to be lost and replaces it, as the recovery policy says.
The state follows the table in base/state.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

from nvmf.initiator.base.background import begin, failure
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.state import Event, Lifecycle, State
from nvmf.initiator.client.bringup import new_session
from nvmf.initiator.client.recovery import Recovery
from nvmf.initiator.client.session import Session
from nvmf.initiator.client.upkeep import async_events, keep_alive
from nvmf.spec.features import AsyncEvent

log = logging.getLogger(__name__)
_CLOSED = "the controller was closed"


class Connection:
    """The sessions of one controller."""

    def __init__(
        self,
        session: Session,
        recovery: Recovery,
        load: Callable[[Session], Coroutine[object, object, None]],
        on_event: Callable[[Session, AsyncEvent], Awaitable[None]],
    ) -> None:
        """load: reads the list of namespaces, with a session that no command uses yet."""
        self.session = session
        """The current session, or the last one."""
        self.usable: Session | None = None
        """The session while the connection is live."""
        self.why = ""
        """Why the connection is lost or closed; "" before."""
        self.reconnects = 0
        """How often the session was replaced."""
        self.recovery = recovery
        self._life = Lifecycle()
        self._load = load
        self._on_event = on_event
        self._changed = asyncio.Event()
        self._since = 0.0
        self._upkeep: list[asyncio.Task[None]] = []
        self._supervisor: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def state(self) -> State:
        """Live, reconnecting, lost or closed."""
        return self._life.state

    async def begin(self) -> None:
        """Prepare the first session, and maintain the connection from then on.

        If that fails, the session and its pool are closed.
        """
        try:
            await self._prepare(self.session)
        except BaseException:
            self.session.place.pool.close()
            raise
        self._adopt(self.session)
        self._supervisor = asyncio.create_task(self._supervise())

    async def live(self) -> Session:
        """Return the session, as soon as one is live.

        Raises ConnectionLost if there will be none, and any exception of the policy.
        """
        while self.usable is None:
            if self._life.ended:
                raise ConnectionLost(self.why)
            self.recovery.hold(f"the connection to {self.session.place.where.endpoint} was lost")
            self._changed.clear()
            await self._changed.wait()
        return self.usable

    # ---- sessions ----

    async def _prepare(self, session: Session) -> None:
        try:
            await session.guard(self._load(session))
            await self.recovery.prepare(session)
        except BaseException:
            await session.close()
            raise

    async def _attempt(self) -> Session:
        session = await new_session(self.session.place)
        await self._prepare(session)
        return session

    def _adopt(self, session: Session) -> None:
        """Use a session from now on, with Keep Alive and events."""
        self.session = self.usable = session
        self._since = asyncio.get_running_loop().time()
        self._upkeep = [
            begin(keep_alive(session), "Keep Alive", session.lose),
            begin(async_events(session, self._on_event), "the handling of an event", session.lose),
        ]
        session.on_lost = self._on_lost
        if session.lost.done():
            self._on_lost()

    def _on_lost(self) -> None:
        self._life.on(Event.CONNECTION_LOST)
        self.usable = None

    async def _end_session(self) -> None:
        await self.recovery.stop(self.session)
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        self._upkeep = []

    async def reset(self) -> bool:
        """Reset the controller, and wait until it is connected again.

        Returns whether it was disabled before it was disconnected. Commands in flight end as with
        a lost connection. Raises ConnectionLost if it cannot be connected again.
        """
        session = await self.live()
        session.on_lost = None
        self._on_lost()  # from now on, commands wait
        disabled = await session.reset()
        await self.live()
        return disabled

    # ---- the supervisor ----

    async def _supervise(self) -> None:
        """Replace the session whenever it is lost, until that fails for good."""
        try:
            while not self._life.ended:
                await asyncio.shield(self.session.lost)
                await self._replace()
        except Exception as error:  # callers that wait for the controller are told
            why = failure("the recovery of the connection", error)
            log.exception("%s: %s", self.session.place.where.subnqn, why)
            self._give_up(why)
            await self.session.close(why)

    async def _replace(self) -> None:
        lost, subnqn = self.session.lost.result(), self.session.place.where.subnqn
        tell = logging.INFO if lost.reset else logging.WARNING
        log.log(tell, "%s: connection lost: %s", subnqn, lost.reason)
        await self._end_session()
        await self.session.close()
        lived = asyncio.get_running_loop().time() - self._since
        try:
            session = await self.recovery.reconnect(self._attempt, self.session.place, lost, lived)
        except ConnectionLost as error:
            log.error("%s", error)
            self._give_up(str(error))
            return
        if self._life.ended:  # closed meanwhile
            await session.close()
            return
        self._life.on(Event.RECONNECTED)
        self.reconnects += 1
        self._adopt(session)
        self._announce()
        log.log(tell, "%s: connected again", subnqn)

    def _give_up(self, why: str) -> None:
        if self.usable is not None:
            self._on_lost()
        if not self._life.ended:
            self._life.on(Event.GAVE_UP)
            self.why = why
            self._announce()

    def _announce(self) -> None:
        """Wake callers that wait for a different state."""
        self._changed.set()
        self.recovery.changed()

    # ---- the end ----

    async def close(self) -> None:
        """Shut the controller down and disconnect; commands in flight fail. Idempotent.

        If the caller is cancelled, it continues to the end.
        """
        if self._closing is None:
            live = self.usable is not None
            self._life.on(Event.CLOSE)
            self.usable = None
            self.why = _CLOSED
            self._announce()
            self._closing = asyncio.create_task(self._close(live))
        await asyncio.shield(self._closing)

    async def _close(self, live: bool) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await self._end_session()
        try:
            if live:
                await self.session.shutdown()
        finally:
            try:
                await self.session.close(_CLOSED)
            finally:
                self.session.place.pool.close()
