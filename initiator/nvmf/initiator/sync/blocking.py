# SPDX-License-Identifier: BSD-3-Clause
"""A thread with an event loop, for callers that have none, and what else they need of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Self, TypeVar

from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.reservations import Reservations
from nvmf.spec.reservations import ReservationStatus, ReservationType

T = TypeVar("T")


CLOSED = "the controller was closed"


class Loop:
    """A thread that runs an event loop until the last of its users closes it.

    Any thread but its own may call the methods.  Work that is not done when the loop ends is
    cancelled, so that nobody waits for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Of the two below: work is only scheduled while the loop is certain to run it."""
        self._users = 1
        self._ended = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="nvmf-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop and return its result; an interrupt cancels it.

        ConnectionLost: the loop has ended, or ends before work does.
        """
        try:
            self._require_other_thread()
            future = self._schedule(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise ConnectionLost(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def get(self, look: Callable[[], T]) -> T:
        """Return the result of look, which reads the loop's objects and does not wait."""

        async def looked() -> T:
            return look()

        try:
            return self.call(looked())
        except ConnectionLost:
            if not self._ended:
                raise
        self._thread.join()
        return look()  # nothing changes them any longer

    def share(self) -> Self:
        """Add a user, who closes the loop too; ConnectionLost if it has ended."""
        with self._lock:
            if self._ended:
                raise ConnectionLost(CLOSED)
            self._users += 1
        return self

    def close(self) -> None:
        """Leave the loop; it and its thread end when the last user has left."""
        self._require_other_thread()
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

    def _schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._ended:
                raise ConnectionLost(CLOSED)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _require_other_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a callback of the client called the synchronous API, which would wait for itself: "
                "let another thread do it"
            )


class BlockingReservations:
    """See nvmf.initiator.base.reservations for what the methods do."""

    def __init__(self, loop: Loop, reservations: Reservations) -> None:
        self._loop = loop
        self._reservations = reservations

    def register(
        self,
        key: int,
        *,
        current: int | None = None,
        ignore_existing: bool = False,
        persist: bool | None = None,
    ) -> None:
        """Register this host with a key; with current (or ignore_existing), replace that one."""
        self._loop.call(
            self._reservations.register(
                key, current=current, ignore_existing=ignore_existing, persist=persist
            )
        )

    def unregister(self, key: int = 0, *, ignore_existing: bool = False) -> None:
        """End this host's registration, and a reservation that it alone holds."""
        self._loop.call(self._reservations.unregister(key, ignore_existing=ignore_existing))

    def acquire(self, key: int, rtype: ReservationType) -> None:
        """Reserve the namespace."""
        self._loop.call(self._reservations.acquire(key, rtype))

    def preempt(
        self, key: int, rtype: ReservationType, preempted: int, *, abort: bool = False
    ) -> None:
        """End the registrations with a key, and take the reservation if it is theirs."""
        self._loop.call(self._reservations.preempt(key, rtype, preempted, abort=abort))

    def release(self, key: int, rtype: ReservationType) -> None:
        """Give the reservation up; registrations stay."""
        self._loop.call(self._reservations.release(key, rtype))

    def clear(self, key: int) -> None:
        """End the reservation and every registration."""
        self._loop.call(self._reservations.clear(key))

    def report(self) -> ReservationStatus:
        """Who is registered, and what is reserved."""
        return self._loop.call(self._reservations.report())
