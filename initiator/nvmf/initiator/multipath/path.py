# SPDX-License-Identifier: BSD-3-Clause
"""One path: its address, its controller once connected, and counts of its commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nvmf.engine import EngineError
from nvmf.initiator.base.background import begin
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.state import State
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.multipath.features import Features
from nvmf.initiator.multipath.recovery import PathRecovery
from nvmf.spec.ana import AnaState
from nvmf.spec.status import StatusError

log = logging.getLogger(__name__)

UNREACHED = (EngineError, StatusError, ConnectionLost)
"""Exceptions of a connect that have their cause at the other end."""


class Path:
    """A path to a subsystem: see Subsystem.paths."""

    def __init__(
        self,
        number: int,
        where: TransportId,
        options: ConnectOptions,
        on_change: Callable[[], None],
        features: Features,
    ) -> None:
        self.number = number
        """Its place in the order in which paths were given."""
        self.where = where
        self.options = options
        self.controller: Controller | None = None
        """None before the first connection."""
        self.admitted: dict[int, Namespace] = {}
        """Namespaces that were found to be those of the other paths."""
        self.refused: dict[int, str] = {}
        """Namespaces that differ from those of the other paths, with the reason."""
        self.outstanding = 0
        """Commands in flight; a transfer may consist of several."""
        self.commands = 0
        """Commands sent by it, so far."""
        self.failovers = 0
        """How many of them were then sent by a different path, because this one failed."""
        self._on_change = on_change
        self._recovery = PathRecovery(features, self._tell)
        self._why = ""
        self._trying: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Path {self.where.endpoint} {self.state.value}>"

    @property
    def state(self) -> State:
        """The state of its controller; also reconnecting before the first connection."""
        if self.controller is not None:
            return self.controller.state
        return State.RECONNECTING if self._trying and not self._trying.done() else State.LOST

    @property
    def why(self) -> str:
        """Why it cannot be used; "" if it can."""
        if self.controller is None:
            return self._why
        return self.controller.connection.why

    def ana(self, nsid: int) -> AnaState | None:
        """Return the ANA state of a namespace; None while it is not known."""
        return None if self.controller is None else self._recovery.ana.of(nsid)

    def doubt(self, nsid: int) -> bool:
        """Read the ANA states again, after a command met a different one.

        Return False if the path has no ANA.
        """
        return self.controller is not None and self._recovery.ana.doubt(
            self.controller.session, nsid
        )

    def namespace(self, nsid: int) -> Namespace | None:
        """Return the namespace by this path alone; None if it has none, or a different one.

        Also None for one that was just read and not yet compared with those of the other paths: an
        NSID may belong to a different namespace on a new path, or after a change.
        """
        if self.controller is None:
            return None
        found = self.controller.roster.active.get(nsid)
        return found if found is self.admitted.get(nsid) else None

    def may_have(self, nsid: int) -> bool:
        """Return whether it has a namespace with this NSID, which is not refused."""
        return (
            self.controller is not None
            and nsid not in self.refused
            and nsid in self.controller.roster.active
        )

    @property
    def namespaces(self) -> list[Namespace]:
        """All namespaces of its controller."""
        return [] if self.controller is None else self.controller.namespaces

    async def connect(self) -> None:
        """Connect; raise as nvmf.initiator.connect() does."""
        self.controller = await Controller.connect(self.where, self.options, self._recovery)

    def _tell(self) -> None:
        if self.controller is not None:
            self._on_change()

    def keep_trying(self, error: Exception) -> None:
        """Try again after the first connection has failed, as after a loss."""
        log.warning("%s: %s", self.where.subnqn, error)
        self._why = str(error)
        self._trying = begin(self._try(), "the connecting of a path", self._given_up)

    def _given_up(self, why: str) -> None:
        self._why = why
        self._trying = None
        self._on_change()

    async def _try(self) -> None:
        options, loop = self.options, asyncio.get_running_loop()
        until = loop.time() + options.ctrl_loss_tmo
        forever = options.ctrl_loss_tmo < 0
        while forever or loop.time() < until:
            wait = options.reconnect_delay
            await asyncio.sleep(wait if forever else min(wait, until - loop.time()))
            try:
                await self.connect()
            except (*UNREACHED, ValueError) as error:  # ValueError: a key file cannot be used
                self._why = str(error)
                log.warning("%s: %s", self.where.subnqn, error)
            else:
                break
        self._trying = None
        self._on_change()

    async def close(self) -> None:
        """Disconnect; commands in flight use a different path, or fail."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        if self.controller is not None:
            await self.controller.close()
