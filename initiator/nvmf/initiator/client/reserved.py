# SPDX-License-Identifier: BSD-3-Clause
"""The entry of the admin queue that is for Keep Alive only, however many commands are in line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.initiator.client.request import Completion, Request

if TYPE_CHECKING:
    import asyncio

    from nvmf.initiator.client.queue import Queue

_LEAST = 3
"""Commands for which a queue needs room to spare it: an Asynchronous Event Request stays long."""


def reserve(queue: Queue) -> None:
    """Reserve an entry of a queue that is not in use yet, if it has enough."""
    if queue._free >= _LEAST:
        queue._free -= 1
        queue.reserved = True


async def execute_reserved(queue: Queue, sqe: bytes, *, within: float, what: str) -> Completion:
    """Execute a command in the reserved entry, one at a time; otherwise as Queue.execute()."""
    if not queue.reserved:
        return await queue.execute(sqe, within=within, what=what)
    future: asyncio.Future[Completion] = queue._loop.create_future()
    request = Request(future, None, queue._loop.time() + within, within, what)
    request.turns = 0  # its end gives no entry to others
    await queue._submit(sqe, request, None, None)
    queue._requests[request] = None
    queue._watch(request.deadline)
    return await future
