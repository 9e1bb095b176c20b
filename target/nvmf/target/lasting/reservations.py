# SPDX-License-Identifier: BSD-3-Clause
"""Reservations of one namespace (Base 2.0, 8.19), without controllers, files or time.

A Reservation is immutable: each action takes one and returns the next, with the hosts to notify.
So nothing has changed if an action is refused, or if its result cannot be stored.
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
"""128 bits, from the Connect data."""
MAX_REGISTRANTS = 4096
_CONFLICT = Gate(*[Status.RESERVATION_CONFLICT | DNR] * 3)
_READ_ONLY = replace(_CONFLICT, read=0)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The registrants with their keys, and the reservation."""

    registrants: Mapping[HostId, int] = field(default_factory=lambda: MappingProxyType({}))
    """The key of each host, in the order of registration."""
    rtype: ReservationType | None = None
    holder: HostId | None = None
    """The host that acquired it; None if there is no reservation, or all registrants hold it."""
    gen: int = 0
    """Number of changes to registrations so far, modulo 2**32."""
    ptpl: bool = False
    """Whether registrants and reservation persist across restarts."""

    def holds(self, host: HostId) -> bool:
        """Return whether a host is a holder."""
        if self.rtype is None or host not in self.registrants:
            return False
        return self.rtype.all_registrants or self.holder == host

    def gate(self, host: HostId) -> Gate:
        """Return the gate for a host's commands (figure 431)."""
        if self.rtype is None or self.holds(host):
            return OPEN
        if self.rtype.for_registrants and host in self.registrants:
            return OPEN
        return _CONFLICT if self.rtype.excludes_reads else _READ_ONLY


class Outcome(NamedTuple):
    """The result of an action."""

    reservation: Reservation
    notifications: Mapping[HostId, NotificationType] = MappingProxyType({})
    """Notifications to send, by host; never to the acting host."""
    removed: frozenset[HostId] = frozenset()
    """Hosts whose registration a different host removed."""


def _conflict(sentence: str) -> StatusError:
    return StatusError(Status.RESERVATION_CONFLICT, sentence)


def _check_key(now: Reservation, host: HostId, key: int) -> None:
    if now.registrants.get(host) != key:
        known = "registered with a different key" if host in now.registrants else "not registered"
        raise _conflict(f"this host is {known}")


def _without(now: Reservation, hosts: frozenset[HostId]) -> Reservation:
    """Remove registrants, and the reservation if no holder is left."""
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

    Raise Reservation Conflict if that is not permitted, and Invalid Field for a new key of 0, which
    Preempt would interpret as all registrants.
    """
    if action is not RegisterAction.UNREGISTER and not new:
        raise StatusError(Status.INVALID_FIELD, "a registration key must not be 0")
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
            # With IEKEY, Replace also registers a host that is not registered.
            if not ignore:
                _check_key(now, host, current)
            elif host not in now.registrants:
                return Outcome(_registered(now, host, new))
            return Outcome(_with_key(now, host, new))


def _registered(now: Reservation, host: HostId, key: int) -> Reservation:
    found = now.registrants.get(host)
    if found is not None and found != key:
        raise _conflict("this host is registered with a different key: replace it")
    if found is None and len(now.registrants) >= MAX_REGISTRANTS:
        raise StatusError(Status.INTERNAL_ERROR, f"there are already {MAX_REGISTRANTS} registrants")
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
    """Acquire, or preempt the hosts with a key; raise Reservation Conflict or Invalid Field."""
    _check_key(now, host, current)
    if action is not AcquireAction.ACQUIRE:
        return _preempt(now, host, rtype, preempted)
    if now.rtype is None:
        return Outcome(_reserved(now, host, rtype))
    if now.holds(host) and now.rtype is rtype:
        return Outcome(now)
    if now.holds(host):
        raise _conflict("this host holds a reservation of a different type")
    raise _conflict("a different host holds a reservation")


def _reserved(now: Reservation, host: HostId, rtype: ReservationType) -> Reservation:
    return replace(now, rtype=rtype, holder=None if rtype.all_registrants else host)


def _preempt(now: Reservation, host: HostId, rtype: ReservationType, key: int) -> Outcome:
    """Preempt (8.19.7): remove the registrants with a key, and take a reservation they hold."""
    everybody = now.rtype is not None and now.rtype.all_registrants
    if not key and not everybody:
        raise StatusError(Status.INVALID_FIELD, "key 0 preempts only all-registrants reservations")
    # For an all-registrants reservation, key 0 means all other hosts.
    named = frozenset(h for h, k in now.registrants.items() if not key or k == key)
    if not named:
        raise _conflict("no host is registered with the key to preempt")
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
    """Release a reservation; no effect if this host holds none."""
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
    """Remove all registrations and the reservation."""
    _check_key(now, host, current)
    everybody = frozenset(now.registrants)
    after = _without(now, everybody)
    told = _tell(everybody, host, NotificationType.RESERVATION_PREEMPTED)
    return Outcome(after, told, everybody - {host})
