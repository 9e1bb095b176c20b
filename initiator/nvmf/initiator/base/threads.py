# SPDX-License-Identifier: BSD-3-Clause
"""Work that blocks, on a thread of its own.

The default executor of asyncio has few threads, and its other users may block all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import Callable
from typing import TypeVar

from nvmf.engine import EngineError
from nvmf.initiator.base.background import finished

T = TypeVar("T")
_LIMITS = "see ulimit -u, and pids.max of the container or service"


def on_thread(
    work: Callable[[], T], unwanted: Callable[[T], object] | None = None
) -> asyncio.Future[T]:
    """Run work on a thread of its own, and return the future of its result.

    unwanted: called on that thread with a result that nobody takes, because the future was
    cancelled or the event loop has ended. Raises EngineError (EAGAIN) if the system allows no
    further thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def discard(result: T) -> None:
        if unwanted is not None:
            unwanted(result)

    def settle(result: T) -> None:
        if not future.done():
            future.set_result(result)
        elif unwanted is not None:
            start_or_run(lambda: discard(result))

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(fail, error)
            return
        if future.cancelled():
            discard(result)
            return
        try:
            loop.call_soon_threadsafe(settle, result)
        except RuntimeError:  # the loop has ended
            discard(result)

    try:
        threading.Thread(target=run).start()
    except RuntimeError as error:
        raise EngineError(errno.EAGAIN, f"{error}: {_LIMITS}") from None
    return future


async def ended_on_thread(work: Callable[[], object]) -> None:
    """Run work that ends something, on a thread of its own; wait for it even if cancelled.

    If the system allows no further thread, it runs here, and blocks the event loop for the bounded
    time that it takes: otherwise the callers that wait for the end would wait forever.
    """
    try:
        running = on_thread(work)
    except EngineError:
        work()
    else:
        await finished([running])


def start_or_run(work: Callable[[], object]) -> None:
    """Run work on a thread of its own, or here if the system allows no further thread."""
    try:
        threading.Thread(target=work).start()
    except RuntimeError:
        work()
