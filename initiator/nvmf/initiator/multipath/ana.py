# SPDX-License-Identifier: BSD-3-Clause
"""The ANA states of the namespaces of one controller, as last read from its log page."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from nvmf.initiator.base.background import begin
from nvmf.initiator.base.errors import ConnectionLost, QueueLost
from nvmf.initiator.client.session import Session
from nvmf.initiator.multipath.analog import read_ana, states
from nvmf.spec.ana import AnaState
from nvmf.spec.identify import Cmic
from nvmf.spec.status import CODE_MASK, StatusError

_ANA = frozenset(state.status for state in AnaState if state.status is not None)


def is_ana_error(status: int) -> bool:
    """Return whether a status reports an ANA state."""
    return status & CODE_MASK in _ANA


class AnaStates:
    """The states by NSID.  Without ANA (CMIC), every namespace is optimized."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """on_change: called after states were read."""
        self._on_change = on_change
        self._states: dict[int, AnaState] | None = None
        """None: the controller has no ANA."""
        self._doubted: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self._transition: asyncio.TimerHandle | None = None

    def of(self, nsid: int) -> AnaState | None:
        """Return the state of a namespace; None while it is not known."""
        if self._states is None:
            return AnaState.OPTIMIZED
        return None if nsid in self._doubted else self._states.get(nsid)

    def doubt(self, session: Session, nsid: int) -> bool:
        """Read the states again, after a command met a different one.

        Return False if the controller has no ANA.
        """
        if self._states is None:
            return False
        self._doubted.add(nsid)
        if self._reading is None or self._reading.done():
            self._reading = begin(
                self._read_again(session), "the reading of ANA states", session.lose
            )
        return True

    async def _read_again(self, session: Session) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.load(session)

    async def load(self, session: Session) -> None:
        """Read the log page.  If it cannot be read, the session ends: QueueLost."""
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
        self._on_change()

    def _watch(self, session: Session, *, changing: bool) -> None:
        """End the session if the state Change lasts for twice the ANATT, as Linux does."""
        if self._transition is not None:
            self._transition.cancel()
            self._transition = None
        if changing:
            seconds = 2 * max(session.identify.anatt, 1)
            reason = f"an ANA group was in the state Change for {seconds} s, twice its ANATT"
            loop = asyncio.get_running_loop()
            self._transition = loop.call_later(seconds, session.lose, reason)

    async def stop(self, session: Session) -> None:
        """End the reading and the timer of a session that has ended."""
        self._watch(session, changing=False)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
