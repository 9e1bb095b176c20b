# SPDX-License-Identifier: BSD-3-Clause
"""A thread with an event loop, for the synchronous forms of asynchronous interfaces."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Self, TypeVar

T = TypeVar("T")


class ThreadLoop:
    """A thread that runs an event loop until the last of its users closes it.

    Threads other than its own may call the methods. Work that is not done when the loop ends is
    cancelled, so that no caller waits for it. A process that was forked has no such thread, and an
    interpreter that exits has stopped it: there, calls raise, and close() does nothing.
    """

    def __init__(self, name: str, error: type[Exception], closed: str) -> None:
        """name: the thread's; error: of calls that cannot run; closed: its text after the end."""
        self._name = name
        self._error = error
        self._ended_text = closed
        self._pid = os.getpid()
        self._lock = threading.Lock()
        """Protects _users and _ended, so that work is scheduled only while the loop runs."""
        self._users = 1
        self._ended = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Coroutine[object, None, T]) -> T:
        """Run work on the loop and return its result; an interrupt cancels it.

        Raises the error of __init__() if the loop has ended, or ends before work does.
        """
        try:
            self._require_thread()
            future = self._schedule(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise self._closed() from None
        except BaseException:
            future.cancel()
            raise

    def get(self, look: Callable[[], T]) -> T:
        """Return the result of look, which reads the loop's objects and does not wait."""

        async def looked() -> T:
            return look()

        try:
            return self.call(looked())
        except self._error:
            if not self._ended:
                raise
        self._thread.join()
        return look()  # nothing changes them any longer

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that has the thread."""
        return os.getpid() != self._pid

    @property
    def gone(self) -> bool:
        """Whether the thread does not run: in a process that was forked, or at the exit."""
        return self.forked or sys.is_finalizing()

    def share(self) -> Self:
        """Add a user, who closes the loop too."""
        self._require_thread()
        with self._lock:
            if self._ended:
                raise self._closed()
            self._users += 1
        return self

    def close(self) -> None:
        """Leave the loop; it and its thread end when the last user has left."""
        if self.gone:
            return
        self._require_thread()
        with self._lock:
            self._users -= 1
            if self._users:
                return
            self._ended = True
            ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        try:
            ending.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def _schedule(self, work: Coroutine[object, None, T]) -> Future[T]:
        with self._lock:
            if self._ended:
                raise self._closed()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _closed(self) -> Exception:
        return self._error(self._ended_text)

    def _require_thread(self) -> None:
        """Raise if a call would wait forever: for its own thread, or for one of another process."""
        if self.forked:  # before any lock, which a thread of the other process may have held
            raise self._error(
                f"this process was forked from process {self._pid}, and has neither its "
                "connections nor its targets: make new ones here"
            )
        if sys.is_finalizing():  # the thread is stopped, and may hold the lock
            raise self._error(
                f"the interpreter exits, and has stopped the thread {self._name}: close files, "
                "iterators and connections before the program ends"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                f"a callback on the thread {self._name} called the synchronous API, which would "
                "wait for itself: let another thread do it"
            )
