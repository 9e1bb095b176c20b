# SPDX-License-Identifier: BSD-3-Clause
"""The controller at the end of one path: it fails commands rather than keep them, and knows ANA.

A command whose connection is lost ends with QueueLost once the queue is torn down and nothing can
move into or out of its buffer any more; then it may go by another path.  The controller reconnects
meanwhile as any other does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from nvmf.initiator.base.background import begin
from nvmf.initiator.base.errors import ConnectionLost, NvmeError, QueueLost
from nvmf.initiator.base.retry import RETRIED, is_path_error
from nvmf.initiator.client.controller import Controller
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.client.session import Session
from nvmf.initiator.multipath.analog import read_ana, states
from nvmf.initiator.multipath.features import Features
from nvmf.spec.ana import AnaState
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import Cmic
from nvmf.spec.opcodes import LogId
from nvmf.spec.status import CODE_MASK, StatusError

log = logging.getLogger(__name__)

_ANA = frozenset(state.status for state in AnaState if state.status is not None)


def is_ana_error(status: int) -> bool:
    """Whether a status tells of an ANA state."""
    return status & CODE_MASK in _ANA


class PathController(Controller):
    """A controller that is one of several paths."""

    _retried = frozenset(code for code in RETRIED if not is_path_error(code))

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.on_change: Callable[[], None] = lambda: None
        """Called after its state, its namespaces or their ANA states may have changed."""
        self.features = Features()
        """What a new connection is given before commands go by it."""
        self._states: dict[int, AnaState] | None = None
        """None: it has no ANA, and all is optimized."""
        self._doubted: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self._transition: asyncio.TimerHandle | None = None

    @property
    def why(self) -> str:
        """Why it is lost or closed; "" before."""
        return self._why

    def find(self, nsid: int) -> Namespace | None:
        """A namespace, if there is one."""
        return self._roster.active.get(nsid)

    def ana(self, nsid: int) -> AnaState | None:
        """The ANA state of a namespace; None while it is not known."""
        if self._states is None:
            return AnaState.OPTIMIZED
        return None if nsid in self._doubted else self._states.get(nsid)

    def doubt(self, nsid: int) -> bool:
        """A command met another state than the one known: ask, and do not use it until then.

        False where there is no ANA to ask.
        """
        if self._states is None:
            return False
        self._doubted.add(nsid)
        if self._reading is None or self._reading.done():
            session = self._session
            self._reading = begin(
                self._read_again(session), "the reading of ANA states", session.lose
            )
        return True

    # ---- what it does otherwise than a controller that is alone ----

    def _passed_on(self, lost: QueueLost) -> None:
        raise lost

    async def _live(self) -> Session:
        raise QueueLost(self._why or f"the connection to {self.where.endpoint} is being made anew")

    def _announce(self) -> None:
        super()._announce()
        self.on_change()

    async def _load_namespaces(self, session: Session, changed: set[int] | None = None) -> None:
        await super()._load_namespaces(session, changed)
        await self._load_states(session)

    async def _read_about(self, session: Session, event: AsyncEvent) -> bytes:
        if event.lid == LogId.ANA:
            await self._load_states(session)
            return b""
        return await super()._read_about(session, event)

    async def _end_upkeep(self) -> None:
        self._watch(self._session, changing=False)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await super()._end_upkeep()

    async def _attempt(self) -> Session:
        session = await super()._attempt()
        try:
            await self.set_again(session)
        except BaseException:
            await session.close()
            raise
        return session

    async def set_again(self, session: Session) -> None:
        """Give a connection's controller, which is a new one, the features that others have."""
        given: dict[int, int] = {}
        while given != self.features.values:
            wanted = dict(self.features.values)
            for fid in [fid for fid in wanted if given.get(fid) != wanted[fid]]:
                await session.guard(self._set_one(session, fid, wanted[fid]))
            given = wanted

    async def _set_one(self, session: Session, fid: int, value: int) -> None:
        try:
            await session.admin.set_features(fid, value)
        except NvmeError as error:
            # A path without the feature is better than none.
            log.warning("%s at %s: %s", self.where.subnqn, self.where.endpoint, error)

    # ---- ANA ----

    async def _read_again(self, session: Session) -> None:
        with contextlib.suppress(ConnectionLost):
            await self._load_states(session)

    async def _load_states(self, session: Session) -> None:
        """Read the log page.  A controller that does not tell is connected anew."""
        if session.identify.cmic & Cmic.ANA:
            try:
                groups = await read_ana(session)
            except QueueLost:
                raise
            except (StatusError, ConnectionLost) as error:
                reason = f"its ANA log page cannot be read: {error}"
                session.lose(reason)
                raise QueueLost(reason) from None
            self._states = states(groups)
            self._watch(session, changing=AnaState.CHANGE in {one.state for one in groups})
        else:
            self._states = None
        self._doubted.clear()
        self.on_change()

    def _watch(self, session: Session, *, changing: bool) -> None:
        """A state Change lasts for ANATT at most; twice that, as Linux has it, and it is lost."""
        if self._transition is not None:
            self._transition.cancel()
            self._transition = None
        if changing:
            seconds = 2 * max(session.identify.anatt, 1)
            reason = f"an ANA group was in the state Change for {seconds} s, twice its ANATT"
            loop = asyncio.get_running_loop()
            self._transition = loop.call_later(seconds, session.lose, reason)
