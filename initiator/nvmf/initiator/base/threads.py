# SPDX-License-Identifier: BSD-3-Clause
"""Work that blocks, on a thread of its own.

The default executor of asyncio has few threads, and its other users may block all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def on_thread(
    work: Callable[[], T], unwanted: Callable[[T], object] | None = None
) -> asyncio.Future[T]:
    """Run work on a thread of its own, and return the future of its result.

    unwanted: called on that thread with a result that nobody takes, because the future was
    cancelled or the event loop has ended.
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
            threading.Thread(target=discard, args=(result,)).start()

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

    threading.Thread(target=run).start()
    return future
