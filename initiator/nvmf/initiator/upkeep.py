# SPDX-License-Identifier: BSD-3-Clause
"""What a session needs in the background: Keep Alive, and Asynchronous Event Requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nvmf.initiator.errors import NvmeError, QueueLost
from nvmf.initiator.session import Session
from nvmf.spec import commands
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import Ctratt

log = logging.getLogger(__name__)


async def keep_alive(session: Session) -> None:
    """Send Keep Alive at KATO / 2, as Linux does, until the session is lost.

    Where any command keeps the controller alive (TBKAS), look twice as often and send one only
    where nothing was answered in between.
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
            await session.admin.run(commands.keep_alive(), "Keep Alive", within=kato)
        except QueueLost:
            return
        except NvmeError as error:
            session.lose(str(error))
            return


async def async_events(
    session: Session, handle: Callable[[Session, AsyncEvent], Awaitable[None]]
) -> None:
    """Ask for events and give each to handle, until the session is lost."""
    try:
        while True:
            done = await session.admin.run(
                commands.async_event_request(), "Asynchronous Event Request", within=None
            )
            await handle(session, AsyncEvent.decode(done.dw0))
    except QueueLost:
        return
    except NvmeError as error:
        log.warning("%s: no more events: %s", session.place.where.subnqn, error)
