# SPDX-License-Identifier: BSD-3-Clause
"""Reservations by whichever path there is: they are a host's, not a controller's (Base 2.0, 8.19).

A registration counts for every controller that has this host's identifier, so that any path will
do, and a command whose path was lost goes by another.  It may have been done before; most can be
done twice: Register with the same key, Acquire with the same type, Release and Report.  The others
meet Reservation Conflict then, because the key that they name is no longer there: a report tells
whether what was asked for is so.  Where it does not, the conflict is the caller's to look at.
(Linux gives a lost path of these commands back to its caller.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.reservations import Reservations
from nvmf.initiator.client.namespace import Namespace
from nvmf.spec.reservations import (
    AcquireAction,
    RegisterAction,
    RegistrantEntry,
    ReleaseAction,
    ReservationStatus,
    ReservationType,
)
from nvmf.spec.status import Status

T = TypeVar("T")
_HOLDS = 1
"""RCSTS: its host holds the reservation."""


class Run(Protocol):
    """Does work on the namespace of one path or another."""

    def __call__(self, work: Callable[[Namespace], Awaitable[T]]) -> Awaitable[T]: ...


class _Doubtful(Exception):
    """Reservation Conflict for a command that may have been done before."""

    def __init__(self, error: NvmeError) -> None:
        super().__init__(str(error))
        self.error = error


class _Commands:
    """Runs commands by the paths."""

    def __init__(self, nsid: int, run: Run) -> None:
        self.nsid = nsid
        self._run = run

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """_Doubtful where it met a conflict, and the connection had ended under it before."""
        lost = False

        async def once(path: Namespace) -> None:
            nonlocal lost
            try:
                await path.send(sqe, name, content)
            except ConnectionLost:
                lost = True
                raise

        try:
            await self._run(once)
        except NvmeError as error:
            if lost and error.status == Status.RESERVATION_CONFLICT:
                raise _Doubtful(error) from None
            raise

    async def receive(self, sqe: bytes, name: str, length: int) -> bytes:
        found = await self._run(lambda path: path.receive(sqe, name, length))
        assert isinstance(found, bytes)
        return found


_Mine = RegistrantEntry | None
"""This host's registration."""
_Done = Callable[[ReservationStatus, _Mine], bool]


class MultipathReservations(Reservations):
    """The reservation commands of a namespace that several paths lead to."""

    def __init__(self, nsid: int, run: Run, hostid: bytes) -> None:
        """hostid: of the host that all paths are connected as."""
        super().__init__(_Commands(nsid, run))
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
        """Run a command; where nobody knows whether it was done before, look at what is so."""
        try:
            await work
        except _Doubtful as doubtful:
            found = await self.report()
            mine = next((one for one in found.registrants if one.hostid == self._hostid), None)
            if not done(found, mine):
                error = doubtful.error
                error.detail += (
                    " by a second path, after the first was lost under it: it may have been done "
                    "by the first, and another host may have changed that; see the report"
                )
                raise error from None
