# SPDX-License-Identifier: BSD-3-Clause
"""Reservations of a namespace: which hosts may read and write it (Base 2.0, 8.19).

A host registers a key, then acquires the reservation. NvmeError (Reservation Conflict) is raised if
a different host has it, or if this host is registered with a different key.
"""

from __future__ import annotations

from typing import Protocol

from nvmf.spec import commands
from nvmf.spec.reservations import (
    AcquireAction,
    PersistenceChange,
    RegisterAction,
    ReleaseAction,
    ReservationStatus,
    ReservationType,
    encode_keys,
)

_FIRST_REPORT = 4096
_LONGEST_REPORT = 256 << 10
_HEAD, _ENTRY = 64, 64


class Commands(Protocol):
    """An object that runs commands on a namespace, such as nvmf.initiator.Namespace."""

    nsid: int

    async def send(self, sqe: bytes, name: str, content: bytes) -> None: ...
    async def receive(self, sqe: bytes, name: str, length: int) -> bytes: ...


class Reservations:
    """The reservation commands of a namespace.  Keys are numbers of 64 bits; 0 is no key."""

    def __init__(self, namespace: Commands) -> None:
        self._namespace = namespace

    async def register(
        self,
        key: int,
        *,
        current: int | None = None,
        ignore_existing: bool = False,
        persist: bool | None = None,
    ) -> None:
        """Register this host with a key; with current (or ignore_existing), replace the key.

        persist: whether registrations and the reservation persist across a restart of the target;
        None leaves the setting unchanged.
        """
        replacing = current is not None or ignore_existing
        action = RegisterAction.REPLACE if replacing else RegisterAction.REGISTER
        await self._register(action, current or 0, key, ignore_existing, persist)

    async def unregister(self, key: int = 0, *, ignore_existing: bool = False) -> None:
        """End this host's registration, and a reservation that it alone holds."""
        await self._register(RegisterAction.UNREGISTER, key, 0, ignore_existing, None)

    async def _register(
        self,
        action: RegisterAction,
        current: int,
        new: int,
        ignore_existing: bool,
        persist: bool | None,
    ) -> None:
        change = PersistenceChange.NONE
        if persist is not None:
            change = PersistenceChange.SET if persist else PersistenceChange.CLEAR
        sqe = commands.reservation_register(
            self._namespace.nsid, action, ignore_existing=ignore_existing, persistence=change
        )
        await self._namespace.send(sqe, "Reservation Register", encode_keys((current, new)))

    async def acquire(self, key: int, rtype: ReservationType) -> None:
        """Reserve the namespace."""
        await self._acquire(AcquireAction.ACQUIRE, key, rtype, 0)

    async def preempt(
        self, key: int, rtype: ReservationType, preempted: int, *, abort: bool = False
    ) -> None:
        """End the registrations with the key preempted, and take over their reservation, if any.

        abort: return only after all commands of those hosts have ended.
        """
        action = AcquireAction.PREEMPT_AND_ABORT if abort else AcquireAction.PREEMPT
        await self._acquire(action, key, rtype, preempted)

    async def _acquire(
        self, action: AcquireAction, key: int, rtype: ReservationType, preempted: int
    ) -> None:
        sqe = commands.reservation_acquire(self._namespace.nsid, action, rtype)
        await self._namespace.send(sqe, "Reservation Acquire", encode_keys((key, preempted)))

    async def release(self, key: int, rtype: ReservationType) -> None:
        """Release the reservation; registrations remain."""
        await self._release(ReleaseAction.RELEASE, key, rtype)

    async def clear(self, key: int) -> None:
        """End the reservation and every registration."""
        await self._release(ReleaseAction.CLEAR, key, 0)

    async def _release(self, action: ReleaseAction, key: int, rtype: int) -> None:
        sqe = commands.reservation_release(self._namespace.nsid, action, rtype)
        await self._namespace.send(sqe, "Reservation Release", encode_keys((key,)))

    async def report(self) -> ReservationStatus:
        """Return the registrations and the reservation."""
        return ReservationStatus.decode(await self.report_data())

    async def report_data(self, length: int | None = None) -> bytes:
        """Return the extended data structure of the report; length: bytes, by default all of it."""
        size = length or _FIRST_REPORT
        while True:
            sqe = commands.reservation_report(self._namespace.nsid, size)
            data = await self._namespace.receive(sqe, "Reservation Report", size)
            needed = _HEAD + _ENTRY * int.from_bytes(data[5:7], "little")
            if length or needed <= size or size >= _LONGEST_REPORT:
                return data
            size = min(needed, _LONGEST_REPORT)
