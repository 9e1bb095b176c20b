# SPDX-License-Identifier: BSD-3-Clause
"""A thread with an event loop, for callers that have none, and what else they need of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, Self, TypeVar

from nvmf.initiator.errors import ConnectionLost
from nvmf.initiator.reservations import Reservations
from nvmf.spec.reservations import ReservationStatus, ReservationType

T = TypeVar("T")


class Loop:
    """A thread that runs an event loop, until the last of those that share it closes it."""

    def __init__(self) -> None:
        self._users = 1
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="nvmf-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop and wait for it; an interrupt cancels it."""
        if not self._thread.is_alive():
            work.close()
            raise ConnectionLost("the controller was closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ConnectionLost("the controller was closed") from None
        except BaseException:
            future.cancel()
            raise

    def share(self) -> Self:
        """For one user more, who closes it too."""
        self._users += 1
        return self

    def close(self) -> None:
        """Leave the loop; it and its thread end when nobody is left."""
        self._users -= 1
        if not self._users and self._thread.is_alive():
            self.call(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class BlockingReservations:
    """See nvmf.initiator.reservations for what the methods do."""

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
