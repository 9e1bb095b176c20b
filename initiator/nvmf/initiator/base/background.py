# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that nobody awaits: an exception in one is logged, and ends what depends on the task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


def begin(
    work: Coroutine[Any, Any, None], name: str, fail: Callable[[str], object]
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
    """Return the sentence about an exception that should not have been possible."""
    return f"{name} failed inside the client: {type(error).__name__}: {error}"
