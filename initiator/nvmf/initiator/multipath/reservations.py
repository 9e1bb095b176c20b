# SPDX-License-Identifier: BSD-3-Clause
"""Reservations through any path: they belong to a host, not to a controller (Base 2.0, 8.19).

A registration applies to every controller with this host's identifier. Therefore any path can be
used, and a command whose path was lost is sent by a different one. It may have been executed
before; most commands can be repeated: Register with the same key, Acquire with the same type,
Release and Report. The others end with Reservation Conflict then, because their key is no longer
registered. In this case a report shows whether the requested state was reached; if not, the caller
gets the conflict. (Linux returns the loss of a path to the caller of these commands.)
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
    """Runs work on the namespace of any path."""

    def __call__(self, work: Callable[[Namespace], Awaitable[T]]) -> Awaitable[T]: ...


class _Doubtful(Exception):
    """Reservation Conflict of a command that may have been executed before."""

    def __init__(self, error: NvmeError) -> None:
        super().__init__(str(error))
        self.error = error


class _Commands:
    """Runs commands through the paths."""

    def __init__(self, nsid: int, run: Run) -> None:
        self.nsid = nsid
        self._run = run

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """Raises _Doubtful for a conflict after a connection had ended during the command."""
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
"""Return this host's registration."""
_Done = Callable[[ReservationStatus, _Mine], bool]


class MultipathReservations(Reservations):
    """The reservation commands of a namespace with several paths."""

    def __init__(self, nsid: int, run: Run, hostid: bytes) -> None:
        """hostid: the host identifier of all paths."""
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
        """Run a command; if it may have been executed before, check the resulting state."""
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
