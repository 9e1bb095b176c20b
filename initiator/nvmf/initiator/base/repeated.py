# SPDX-License-Identifier: BSD-3-Clause
"""Reservation commands that were sent again, because a connection had ended during them.

The command may have been executed before. Most commands can be repeated: Register with the same
key, Acquire with the same type, Release and Report. The others end with Reservation Conflict then,
because their key is no longer registered. In this case a report shows whether the requested state
was reached; if not, the caller gets the conflict. (Linux returns the loss of the connection to the
caller of these commands.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nvmf.initiator.base.errors import NvmeError
from nvmf.initiator.base.reservations import Commands, Reservations
from nvmf.spec.reservations import (
    AcquireAction,
    RegisterAction,
    RegistrantEntry,
    ReleaseAction,
    ReservationStatus,
    ReservationType,
)

_HOLDS = 1
"""RCSTS: its host holds the reservation."""
_Mine = RegistrantEntry | None
"""This host's registration."""
_Done = Callable[[ReservationStatus, _Mine], bool]


class Doubtful(Exception):
    """A Reservation Conflict of a command that may have been executed before."""

    def __init__(self, error: NvmeError, why: str) -> None:
        """why: how the command was repeated, for the sentence of the error."""
        super().__init__(str(error))
        self.error = error
        self.why = why


class RepeatedReservations(Reservations):
    """The reservation commands of a namespace, which may be repeated."""

    def __init__(self, commands: Commands, hostid: bytes) -> None:
        """commands: its send() raises Doubtful; hostid: the host identifier of the connections."""
        super().__init__(commands)
        self._hostid = hostid

    async def _register(
        self,
        action: RegisterAction,
        current: int,
        new: int,
        ignore_existing: bool,
        persist: bool | None,
    ) -> None:
        def done(_: ReservationStatus, mine: _Mine) -> bool:
            if action is RegisterAction.UNREGISTER:
                return mine is None
            return mine is not None and mine.rkey == new

        work = super()._register(action, current, new, ignore_existing, persist)
        await self._settle(work, done)

    async def _acquire(
        self, action: AcquireAction, key: int, rtype: ReservationType, preempted: int
    ) -> None:
        def done(found: ReservationStatus, mine: _Mine) -> bool:
            others = [one for one in found.registrants if one.hostid != self._hostid]
            return (
                mine is not None
                and (mine.rkey, found.rtype) == (key, rtype)
                and bool(mine.rcsts & _HOLDS)
                and (action is AcquireAction.ACQUIRE or preempted not in {o.rkey for o in others})
            )

        await self._settle(super()._acquire(action, key, rtype, preempted), done)

    async def _release(self, action: ReleaseAction, key: int, rtype: int) -> None:
        def done(found: ReservationStatus, _: _Mine) -> bool:
            cleared = not found.registrants and not found.rtype
            return action is ReleaseAction.CLEAR and cleared

        await self._settle(super()._release(action, key, rtype), done)

    async def _settle(self, work: Awaitable[None], done: _Done) -> None:
        """Run a command; if it may have been executed before, check the resulting state."""
        try:
            await work
        except Doubtful as doubtful:
            found = await self.report()
            mine = next((one for one in found.registrants if one.hostid == self._hostid), None)
            if not done(found, mine):
                error = doubtful.error
                error.detail += (
                    f" {doubtful.why}: it may have been done before, and another host may have "
                    "changed that; see the report"
                )
                raise error from None
