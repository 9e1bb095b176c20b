# SPDX-License-Identifier: BSD-3-Clause
"""The thread of a synchronous client, and its reservations."""

from __future__ import annotations

from nvmf.initiator.base.errors import ConnectionLost
from nvmf.initiator.base.reservations import Reservations
from nvmf.loop import ThreadLoop
from nvmf.spec.reservations import ReservationStatus, ReservationType

CLOSED = "the controller was closed"


class Loop(ThreadLoop):
    """The thread of a client; its calls raise ConnectionLost after its end."""

    def __init__(self) -> None:
        super().__init__("nvmf-client", ConnectionLost, CLOSED)


class BlockingReservations:
    """nvmf.initiator.base.reservations describes the methods."""

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
        """End the registrations with a key, and take over their reservation, if any."""
        self._loop.call(self._reservations.preempt(key, rtype, preempted, abort=abort))

    def release(self, key: int, rtype: ReservationType) -> None:
        """Release the reservation; registrations remain."""
        self._loop.call(self._reservations.release(key, rtype))

    def clear(self, key: int) -> None:
        """End the reservation and every registration."""
        self._loop.call(self._reservations.clear(key))

    def report(self) -> ReservationStatus:
        """Return the registrations and the reservation."""
        return self._loop.call(self._reservations.report())

    def report_data(self, length: int | None = None) -> bytes:
        """Return the extended data structure of the report; length: bytes, by default all of it."""
        return self._loop.call(self._reservations.report_data(length))
