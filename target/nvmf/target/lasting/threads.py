# SPDX-License-Identifier: BSD-3-Clause
"""Threads for work that may block on a disk.

Each kind of work has its own threads, so that a disk that hangs delays neither other kinds nor
the event loop's default executor.  The threads are daemons: the target can end while one hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Up to most threads, one for each piece of work; work beyond that waits in order."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._free = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of work, or raise its exception.

        If the caller is cancelled, the work continues, and keeps its thread until it ends.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            self._free.release()
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def body() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as caught:
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed, so there is no waiter
                loop.call_soon_threadsafe(finish, result, error)

        try:
            threading.Thread(target=body, name=f"nvmf-{self._name}", daemon=True).start()
        except BaseException:
            self._free.release()
            raise
        return await future
