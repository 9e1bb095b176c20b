# SPDX-License-Identifier: BSD-3-Clause
"""Background tasks: an exception in one is logged, and reported to its owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")


def begin(
    work: Coroutine[object, object, None], name: str, fail: Callable[[str], object]
) -> asyncio.Task[None]:
    """Start a task.  If it raises, log the exception and call fail with a sentence about it.

    name: the subject of that sentence.
    """
    task = asyncio.create_task(work)

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            sentence = failure(name, error)
            log.error("%s", sentence, exc_info=error)
            fail(sentence)

    task.add_done_callback(ended)
    return task


def failure(name: str, error: BaseException) -> str:
    """Return the sentence about an exception that a defect of the client has raised."""
    return f"{name} failed inside the client: {type(error).__name__}: {error}"


async def finished(work: Sequence[asyncio.Future[T]]) -> bool:
    """Wait until all are done, even if the caller is cancelled; return whether it was."""
    cancelled = False
    while waiting := [future for future in work if not future.done()]:
        try:
            await asyncio.wait(waiting)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
