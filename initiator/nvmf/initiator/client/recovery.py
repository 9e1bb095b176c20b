# SPDX-License-Identifier: BSD-3-Clause
"""The recovery policy after the loss of a connection, and Linux's timers.

A single controller keeps its commands until it is connected again (KeepCommands). A path of several
returns them at once (nvmf.initiator.multipath.recovery).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from nvmf.engine import EngineError
from nvmf.initiator.base.errors import ConnectionLost, QueueLost
from nvmf.initiator.base.retry import RETRIED
from nvmf.initiator.client.session import Lost, Place, Session
from nvmf.spec.features import AsyncEvent
from nvmf.spec.status import StatusError

log = logging.getLogger(__name__)
attempts_log = logging.getLogger(f"{__name__}.attempts")
"""Every attempt that fails, at level INFO: for programs that show them in a line of their own."""
_FAILED = "%s: cannot reconnect (attempt %d, %s): %s"
"""Subsystem NQN, number of the attempt, time left, reason."""
_LEAST = 1.0
"""Seconds that an attempt has at least: the last one may begin when ctrl_loss_tmo ends."""
_TELL_EVERY = 60.0
"""Seconds between two warnings about attempts that fail."""

Attempt: TypeAlias = Callable[[], Awaitable[Session]]
"""Makes one attempt to connect."""


class Recovery(Protocol):
    """The policy of one controller, which calls the methods on its event loop."""

    @property
    def retried(self) -> frozenset[int]:
        """Statuses after which the controller sends a command again."""

    # ---- its commands ----

    def command_lost(self, lost: QueueLost) -> None:
        """Handle a command that ended with its connection: return to send it again, or raise."""

    def hold(self, why: str) -> None:
        """Handle a command without a connection: return to let it wait for one, or raise."""

    # ---- its connection ----

    async def reconnect(self, attempt: Attempt, place: Place, lost: Lost, lived: float) -> Session:
        """Return the session of an attempt that succeeds; raise ConnectionLost to give up.

        lived: seconds that the lost session had lasted.
        """

    async def prepare(self, session: Session) -> None:
        """Prepare a new session before commands use it; an exception ends the attempt."""

    async def namespaces_read(self, session: Session) -> None:
        """Read additional data of namespaces, after their list was read."""

    async def read_about(self, session: Session, event: AsyncEvent) -> bool:
        """Read the log page of an event, if the policy handles it; return whether it does."""

    async def stop(self, session: Session) -> None:
        """End the work that belongs to a session that has ended."""

    # ---- notification ----

    def changed(self) -> None:
        """Handle a change of the connection's state."""


class KeepCommands:
    """The policy of a single controller: commands wait until it is connected again."""

    retried = RETRIED

    def command_lost(self, lost: QueueLost) -> None:
        """Let the command be sent again."""

    def hold(self, why: str) -> None:
        """Let the command wait for the reconnection."""

    async def reconnect(self, attempt: Attempt, place: Place, lost: Lost, lived: float) -> Session:
        """Reconnect with Linux's timers."""
        return await reconnect(attempt, place, lost, lived)

    async def prepare(self, session: Session) -> None:
        """Do nothing: a session is complete after Connect."""

    async def namespaces_read(self, session: Session) -> None:
        """Do nothing: Identify has all data."""

    async def read_about(self, session: Session, event: AsyncEvent) -> bool:
        """Return False: the policy handles no event."""
        return False

    async def stop(self, session: Session) -> None:
        """Do nothing."""

    def changed(self) -> None:
        """Do nothing: callers read the state."""


async def reconnect(attempt: Attempt, place: Place, lost: Lost, lived: float) -> Session:
    """Call attempt every reconnect_delay until it succeeds, and return its session.

    The first attempt is made at once after a reset by this host, and if the lost session had lasted
    reconnect_delay or longer (lived: seconds) and no command had timed out. Raises ConnectionLost
    if no attempt succeeds within ctrl_loss_tmo, which ends one that is in progress; after a reset
    the first attempt is made in any case. A negative ctrl_loss_tmo sets no limit.
    """
    options, where, loop = place.options, place.where, asyncio.get_running_loop()
    began = loop.time()
    forever = options.ctrl_loss_tmo < 0
    at_once = not lost.timed_out and lived >= options.reconnect_delay
    pause = 0.0 if lost.reset or at_once else None
    last = "no attempt was made"
    attempts, told = 0, -_TELL_EVERY
    while True:
        left = began + options.ctrl_loss_tmo - loop.time()
        if not forever and left <= 0 and (attempts or not lost.reset):
            break
        wait = options.reconnect_delay if pause is None else pause
        pause = None
        await asyncio.sleep(wait if forever else min(wait, left))
        unlimited = forever or (lost.reset and not attempts)
        left = began + options.ctrl_loss_tmo - loop.time()
        limit = asyncio.timeout(None if unlimited else max(left, _LEAST))
        try:
            async with limit:
                return await attempt()
        except (EngineError, StatusError, ConnectionLost, ValueError, TimeoutError) as error:
            last, attempts = str(error), attempts + 1
            if limit.expired():
                last = "an attempt was in progress"
            left = max(began + options.ctrl_loss_tmo - loop.time(), 0.0)
            time = "no time limit" if forever else f"{left:.0f} s left"
            failed = (where.subnqn, attempts, time, last)
            tell = loop.time() - told >= _TELL_EVERY
            attempts_log.info(_FAILED, *failed, extra={"warned": tell})
            if tell:
                told = loop.time()
                log.warning(_FAILED, *failed, extra={"attempt": attempts})
        except Exception as error:  # otherwise callers would wait forever
            last, attempts = f"{type(error).__name__}: {error}", attempts + 1
            log.exception("%s: cannot reconnect", where.subnqn)
    raise ConnectionLost(
        f"the connection to {where} was lost ({lost.reason}) and not made again within "
        f"{options.ctrl_loss_tmo:g} s (ctrl_loss_tmo): {last}"
    )
