# SPDX-License-Identifier: BSD-3-Clause
"""The background tasks of a session: Keep Alive, and Asynchronous Event Requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nvmf.initiator.base.errors import NvmeError, QueueLost
from nvmf.initiator.client.session import Session
from nvmf.spec import commands
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import Ctratt

log = logging.getLogger(__name__)
_EVENT_SECONDS = 0.1
"""Seconds between events on average, if there are many ..."""
_BURST_SECONDS = 3.2
"""... and the seconds by which they may be early: a burst of events is handled at once."""


async def keep_alive(session: Session) -> None:
    """Send Keep Alive at KATO / 2, as Linux does, until the session is lost.

    If any command keeps the controller alive (TBKAS), check twice as often, and send one only if no
    command was completed in between.
    """
    kato = session.place.options.kato
    if not kato or not session.identify.kas:
        return
    by_traffic = bool(session.identify.ctratt & Ctratt.TBKAS)
    interval = kato / 4 if by_traffic else kato / 2
    while True:
        seen = session.completed
        await asyncio.sleep(interval)
        if by_traffic and session.completed != seen:
            continue
        try:
            await session.admin.keep_alive(kato)
        except QueueLost:
            return
        except NvmeError as error:
            session.lose(str(error))
            return


async def async_events(
    session: Session, handle: Callable[[Session, AsyncEvent], Awaitable[None]]
) -> None:
    """Ask for events and give each to handle, until the session is lost.

    The rate of events is limited, so that at least half of the time remains for other work.
    """
    loop = asyncio.get_running_loop()
    due = loop.time()
    try:
        while True:
            done = await session.admin.run(
                commands.async_event_request(), "Asynchronous Event Request", within=None
            )
            began = loop.time()
            await handle(session, AsyncEvent.decode(done.dw0))
            due = max(due, began) + max(_EVENT_SECONDS, 2 * (loop.time() - began))
            await asyncio.sleep(max(0.0, due - _BURST_SECONDS - loop.time()))
    except QueueLost:
        return
    except NvmeError as error:
        if not session.resetting:  # a reset ends the requests
            log.warning("%s: no more events: %s", session.place.where.subnqn, error)
