# SPDX-License-Identifier: BSD-3-Clause
"""One path: where it leads, its controller once there is one, and what went by it."""

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
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.multipath.controller import PathController
from nvmf.initiator.multipath.features import Features
from nvmf.spec.ana import AnaState
from nvmf.spec.status import StatusError

log = logging.getLogger(__name__)

UNREACHED = (EngineError, StatusError, ConnectionLost)
"""What connecting raises where the other end is the reason."""


class Path:
    """A way to a subsystem: see Subsystem.paths."""

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
        self.controller: PathController | None = None
        """None until the first connection was made."""
        self.refused: dict[int, str] = {}
        """Namespaces that are not those of the other paths, with the reason."""
        self.outstanding = 0
        """Commands on their way; a transfer that needs several counts each."""
        self.commands = 0
        """Commands that were given to it, so far."""
        self.failovers = 0
        """How many of them it did not do, for a reason of its own, so that they went elsewhere."""
        self._on_change = on_change
        self._features = features
        self._why = ""
        self._trying: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Path {self.where.endpoint} {self.state.value}>"

    @property
    def state(self) -> State:
        """Of its controller; reconnecting too before the first connection."""
        if self.controller is not None:
            return self.controller.state
        return State.RECONNECTING if self._trying and not self._trying.done() else State.LOST

    @property
    def why(self) -> str:
        """Why it is of no use; "" where nothing is known against it."""
        if self.controller is None:
            return self._why
        return self.controller.why

    def ana(self, nsid: int) -> AnaState | None:
        """What the path does for a namespace; None while that is not known."""
        return None if self.controller is None else self.controller.ana(nsid)

    def namespace(self, nsid: int) -> Namespace | None:
        """The namespace by this path alone; None where it has none, or another."""
        if self.controller is None or nsid in self.refused:
            return None
        return self.controller.find(nsid)

    @property
    def namespaces(self) -> list[Namespace]:
        """Every namespace that its controller has."""
        return [] if self.controller is None else self.controller.namespaces

    async def connect(self) -> None:
        """Connect; raises as nvmf.initiator.connect does."""
        controller = await PathController.connect(self.where, self.options)
        controller.features = self._features
        try:
            await controller.set_again(controller.session)
        except BaseException:
            await controller.close()
            raise
        controller.on_change = self._on_change
        self.controller = controller

    def keep_trying(self, error: Exception) -> None:
        """The first connection failed: try again as one does that was lost."""
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
        while options.ctrl_loss_tmo < 0 or loop.time() + options.reconnect_delay <= until:
            await asyncio.sleep(options.reconnect_delay)
            try:
                await self.connect()
            except (*UNREACHED, ValueError) as error:  # a key file that cannot be used, too
                self._why = str(error)
                log.warning("%s: %s", self.where.subnqn, error)
            else:
                break
        self._trying = None
        self._on_change()

    async def close(self) -> None:
        """Disconnect; what is in flight goes elsewhere, or fails."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        if self.controller is not None:
            await self.controller.close()
