# SPDX-License-Identifier: BSD-3-Clause
"""Connecting again after a session was lost, with the timers of Linux's host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nvmf.engine import EngineError
from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.client.session import Lost, Place, Session
from nvmf.spec.status import StatusError

log = logging.getLogger(__name__)


async def reconnect(
    attempt: Callable[[], Awaitable[Session]], place: Place, lost: Lost, lived: float
) -> Session:
    """Call attempt every reconnect_delay until it succeeds, and return its session.

    The first attempt is made at once if the lost session had lived for reconnect_delay at least
    (lived: seconds) and no command had timed out.  ConnectionLost: none succeeded within
    ctrl_loss_tmo; a negative one has no end.
    """
    options, where, loop = place.options, place.where, asyncio.get_running_loop()
    began = loop.time()
    forever = options.ctrl_loss_tmo < 0
    pause = 0.0 if not lost.timed_out and lived >= options.reconnect_delay else None
    last = "no attempt was made"
    while True:
        left = began + options.ctrl_loss_tmo - loop.time()
        if not forever and left <= 0:
            break
        wait = options.reconnect_delay if pause is None else pause
        pause = None
        await asyncio.sleep(wait if forever else min(wait, left))
        try:
            return await attempt()
        except (EngineError, StatusError, ConnectionLost, ValueError) as error:
            last = str(error)
            log.warning("%s: cannot reconnect: %s", where.subnqn, last)
        except Exception as error:  # or those who wait would do so forever
            last = f"{type(error).__name__}: {error}"
            log.exception("%s: cannot reconnect", where.subnqn)
    raise ConnectionLost(
        f"the connection to {where} was lost ({lost.reason}) and not made again within "
        f"{options.ctrl_loss_tmo:g} s (ctrl_loss_tmo): {last}"
    )
