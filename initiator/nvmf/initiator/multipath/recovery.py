# SPDX-License-Identifier: BSD-3-Clause
"""The recovery policy of a controller that is one of several paths.

A command whose connection is lost ends with QueueLost once the queue is torn down and nothing can
move into or out of its buffer; then it may use a different path. Meanwhile the controller
reconnects as a single one does. A new connection has a new controller: before commands use it, it
gets the features that were set, and its ANA states are read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from nvmf.initiator.base.errors import NvmeError, QueueLost
from nvmf.initiator.base.retry import MAX_RETRIES, RETRIED, is_path_error
from nvmf.initiator.client.recovery import Attempt, reconnect
from nvmf.initiator.client.session import Lost, Place, Session
from nvmf.initiator.multipath.ana import AnaStates
from nvmf.initiator.multipath.features import Features
from nvmf.spec.features import AsyncEvent
from nvmf.spec.opcodes import LogId

log = logging.getLogger(__name__)


class PathRecovery:
    """Returns commands to be sent by a different path, and follows ANA states."""

    retried = frozenset(code for code in RETRIED if not is_path_error(code))

    def __init__(self, features: Features, on_change: Callable[[], None]) -> None:
        """on_change: called after the state, the namespaces or their ANA states have changed."""
        self.ana = AnaStates(on_change)
        self._features = features
        self._on_change = on_change
        self._losses: dict[tuple[int, int], int] = {}
        """Connections of this path in a row that ended while they were given a feature's value."""

    def command_lost(self, lost: QueueLost) -> None:
        """Raise: the command is sent by a different path."""
        raise lost

    def hold(self, why: str) -> None:
        """Raise QueueLost: the command is sent by a different path."""
        raise QueueLost(why)

    async def reconnect(self, attempt: Attempt, place: Place, lost: Lost, lived: float) -> Session:
        """Reconnect with Linux's timers."""
        return await reconnect(attempt, place, lost, lived)

    async def prepare(self, session: Session) -> None:
        """Set the features that the other paths have.

        A value is forgotten if many connections of the path ended during the command: a controller
        that ends the connection at it could never be connected again otherwise. Those of other
        paths do not count: all may end at once, because the target went away.
        """
        given: dict[int, int] = {}
        while given != self._features.values:
            wanted = dict(self._features.values)
            for fid in [fid for fid in wanted if given.get(fid) != wanted[fid]]:
                try:
                    await session.guard(self._set(session, fid, wanted[fid]))
                except QueueLost as lost:
                    if lost.sent and self._was_last(fid, wanted[fid]):
                        where = session.place.where
                        log.error(
                            "%s at %s: feature %02Xh is no longer set on new connections, because "
                            "they end during the command",
                            where.subnqn,
                            where.endpoint,
                            fid,
                        )
                    raise
                self._losses.pop((fid, wanted[fid]), None)
            given = wanted

    def _was_last(self, fid: int, value: int) -> bool:
        """Count a loss; return whether the value was forgotten, because it was one too many."""
        key = fid, value
        self._losses[key] = self._losses.get(key, 0) + 1
        if self._losses[key] <= MAX_RETRIES:
            return False
        del self._losses[key]
        return self._features.forget(fid, value)

    @staticmethod
    async def _set(session: Session, fid: int, value: int) -> None:
        try:
            await session.admin.set_features(fid, value)
        except NvmeError as error:
            # A path without the feature is better than no path.
            where = session.place.where
            log.warning("%s at %s: %s", where.subnqn, where.endpoint, error)

    async def namespaces_read(self, session: Session) -> None:
        """Read the ANA states of the path."""
        await self.ana.load(session)

    async def read_about(self, session: Session, event: AsyncEvent) -> bool:
        """Read the ANA states after an ANA Change event; return whether it is one."""
        if event.lid != LogId.ANA:
            return False
        await self.ana.load(session)
        return True

    async def stop(self, session: Session) -> None:
        """End the reading of ANA states."""
        await self.ana.stop(session)

    def changed(self) -> None:
        """Tell the subsystem."""
        self._on_change()
