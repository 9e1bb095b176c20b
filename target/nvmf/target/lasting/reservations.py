# SPDX-License-Identifier: BSD-3-Clause
"""Reservations of one namespace (Base 2.0, 8.19), without controllers, files or time.

A Reservation is a value: each action takes one and gives the next, with who has to be told of it.
So nothing has changed where an action is refused, or where its result cannot be made to last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from nvmf.spec.reservations import (
    AcquireAction,
    NotificationType,
    RegisterAction,
    ReservationType,
)
from nvmf.spec.sqe import At
from nvmf.spec.status import DNR, Status, StatusError
from nvmf.target.command.gates import OPEN, Gate

HostId = bytes
"""128 bits, as Connect gave it."""
MAX_REGISTRANTS = 4096
_CONFLICT = Gate(*[Status.RESERVATION_CONFLICT | DNR] * 3)
_READ_ONLY = replace(_CONFLICT, read=0)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Who is registered with which key, and what is reserved for whom."""

    registrants: Mapping[HostId, int] = field(default_factory=lambda: MappingProxyType({}))
    """Host to its key, in the order of registration."""
    rtype: ReservationType | None = None
    holder: HostId | None = None
    """Who acquired it; None where there is none, or where all registrants hold it."""
    gen: int = 0
    """Changes of the registrants so far, modulo 2**32."""
    ptpl: bool = False
    """Whether registrants and reservation outlive the target."""

    def holds(self, host: HostId) -> bool:
        """Whether a host is a holder."""
        if self.rtype is None or host not in self.registrants:
            return False
        return self.rtype.all_registrants or self.holder == host

    def gate(self, host: HostId) -> Gate:
        """What a host's commands meet (figure 431)."""
        if self.rtype is None or self.holds(host):
            return OPEN
        if self.rtype.for_registrants and host in self.registrants:
            return OPEN
        return _CONFLICT if self.rtype.excludes_reads else _READ_ONLY


class Outcome(NamedTuple):
    """What an action leads to."""

    reservation: Reservation
    notifications: Mapping[HostId, NotificationType] = MappingProxyType({})
    """Who has to be told what; never the host that acts."""
    removed: frozenset[HostId] = frozenset()
    """Whose registration was taken away by another host."""


def _conflict(sentence: str) -> StatusError:
    return StatusError(Status.RESERVATION_CONFLICT, sentence)


def _check_key(now: Reservation, host: HostId, key: int) -> None:
    if now.registrants.get(host) != key:
        known = "another key" if host in now.registrants else "no key"
        raise _conflict(f"this host is registered with {known}")


def _without(now: Reservation, hosts: frozenset[HostId]) -> Reservation:
    """Take registrants away, and a reservation that nobody is left to hold."""
    left = {host: key for host, key in now.registrants.items() if host not in hosts}
    after = replace(now, registrants=MappingProxyType(left), gen=(now.gen + 1) % (1 << 32))
    if now.rtype is not None and (not left or now.holder in hosts):
        return replace(after, rtype=None, holder=None)
    return after


def _tell(hosts: object, host: HostId, what: NotificationType) -> dict[HostId, NotificationType]:
    assert isinstance(hosts, frozenset | Mapping)
    return {other: what for other in hosts if other != host}


# ---- Reservation Register (7.3) ----


def register(
    now: Reservation, host: HostId, action: RegisterAction, current: int, new: int, *, ignore: bool
) -> Outcome:
    """Register, unregister or replace a key.

    Reservation Conflict where that may not be; Invalid Field for a new key of 0, which would mean
    "everybody" where it is to be preempted.
    """
    if action is not RegisterAction.UNREGISTER and not new:
        raise StatusError(Status.INVALID_FIELD, "0 is no key to register")
    match action:
        case RegisterAction.REGISTER:
            return Outcome(_registered(now, host, new))
        case RegisterAction.UNREGISTER:
            if host not in now.registrants:
                raise _conflict("this host is not registered")
            if not ignore:
                _check_key(now, host, current)
            return _unregistered(now, host)
        case RegisterAction.REPLACE:
            # IEKEY lets a host that knows no key of its own in, too.
            if not ignore:
                _check_key(now, host, current)
            elif host not in now.registrants:
                return Outcome(_registered(now, host, new))
            return Outcome(_with_key(now, host, new))


def _registered(now: Reservation, host: HostId, key: int) -> Reservation:
    found = now.registrants.get(host)
    if found is not None and found != key:
        raise _conflict("this host is registered with another key: replace it")
    if found is None and len(now.registrants) >= MAX_REGISTRANTS:
        raise StatusError(Status.INTERNAL_ERROR, f"there are {MAX_REGISTRANTS} registrants")
    return _with_key(now, host, key)


def _with_key(now: Reservation, host: HostId, key: int) -> Reservation:
    registrants = MappingProxyType({**now.registrants, host: key})
    return replace(now, registrants=registrants, gen=(now.gen + 1) % (1 << 32))


def _unregistered(now: Reservation, host: HostId) -> Outcome:
    after = _without(now, frozenset((host,)))
    released = now.rtype is not None and after.rtype is None and now.rtype.for_registrants
    if not released:
        return Outcome(after)
    return Outcome(after, _tell(after.registrants, host, NotificationType.RESERVATION_RELEASED))


# ---- Reservation Acquire (7.2) ----


def acquire(
    now: Reservation,
    host: HostId,
    action: AcquireAction,
    rtype: ReservationType,
    current: int,
    preempted: int,
) -> Outcome:
    """Acquire, or preempt the holders of a key.  Reservation Conflict, Invalid Field."""
    _check_key(now, host, current)
    if action is not AcquireAction.ACQUIRE:
        return _preempt(now, host, rtype, preempted)
    if now.rtype is None:
        return Outcome(_reserved(now, host, rtype))
    if now.holds(host) and now.rtype is rtype:
        return Outcome(now)
    if now.holds(host):
        raise _conflict("this host holds a reservation of another type")
    raise _conflict("another host holds a reservation")


def _reserved(now: Reservation, host: HostId, rtype: ReservationType) -> Reservation:
    return replace(now, rtype=rtype, holder=None if rtype.all_registrants else host)


def _preempt(now: Reservation, host: HostId, rtype: ReservationType, key: int) -> Outcome:
    """Preempt (8.19.7): remove the registrants of a key; take the reservation if it is theirs."""
    everybody = now.rtype is not None and now.rtype.all_registrants
    if not key and not everybody:
        raise StatusError(Status.INVALID_FIELD, "key 0 preempts only what all registrants hold")
    # Key 0 is all the others, where all hold it.
    named = frozenset(h for h, k in now.registrants.items() if not key or k == key)
    if not named:
        raise _conflict("nobody is registered with the key to preempt")
    takes = not key if everybody else now.holder in named
    others = named - {host}
    after = replace(_without(now, others), rtype=now.rtype, holder=now.holder)
    told = _tell(others, host, NotificationType.REGISTRATION_PREEMPTED)
    if not takes:
        return Outcome(after, told, others)
    if now.rtype is not rtype:
        left = after.registrants
        told = {**told, **_tell(left, host, NotificationType.RESERVATION_RELEASED)}
    return Outcome(_reserved(after, host, rtype), told, others)


# ---- Reservation Release (7.5) ----


def release(now: Reservation, host: HostId, rtype: int, current: int) -> Outcome:
    """Give a reservation up; nothing happens where this host holds none."""
    _check_key(now, host, current)
    if not now.holds(host):
        return Outcome(now)
    assert now.rtype is not None
    if now.rtype != rtype:
        raise StatusError(
            Status.INVALID_FIELD,
            f"the reservation is of type {now.rtype:d}, not {rtype}",
            location=At.RTYPE,
        )
    after = replace(now, rtype=None, holder=None)
    if not now.rtype.for_registrants:
        return Outcome(after)
    return Outcome(after, _tell(now.registrants, host, NotificationType.RESERVATION_RELEASED))


def clear(now: Reservation, host: HostId, current: int) -> Outcome:
    """Take every registration and the reservation away."""
    _check_key(now, host, current)
    everybody = frozenset(now.registrants)
    after = _without(now, everybody)
    told = _tell(everybody, host, NotificationType.RESERVATION_PREEMPTED)
    return Outcome(after, told, everybody - {host})
