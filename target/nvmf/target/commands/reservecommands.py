# SPDX-License-Identifier: BSD-3-Clause
"""Reservation commands (Base 2.0, 7.2 to 7.5), features and notification log page."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from enum import IntEnum
from typing import TypeVar

from nvmf.spec.opcodes import IoOpcode
from nvmf.spec.reservations import (
    AcquireAction,
    AcquireDw10,
    NotificationPage,
    PersistenceChange,
    RegisterAction,
    RegisterDw10,
    RegistrantEntry,
    ReleaseAction,
    ReleaseDw10,
    ReservationStatus,
    ReservationType,
    keys,
)
from nvmf.spec.sqe import At
from nvmf.spec.status import DecodeError, Status, StatusError
from nvmf.target.command.events import RESERVATION_NOTICE
from nvmf.target.command.later import Done, answer, each
from nvmf.target.command.request import Completion, Request, expect_length
from nvmf.target.commands.handler import Handler
from nvmf.target.commands.identify import chosen_namespaces, find_accessible
from nvmf.target.lasting import reservations
from nvmf.target.lasting.reservations import Outcome, Reservation
from nvmf.target.model.controller import Controller
from nvmf.target.model.reservekeeper import Action

_Action = TypeVar("_Action", bound=IntEnum)
_EXTENDED = 1
ABORT_TIMEOUT = 5.0
"""Seconds until Preempt and Abort disconnects hosts that do not transfer their data."""
_MASK = 0b1110
"""Registration Preempted, Reservation Released, Reservation Preempted."""
_MOST_AVAILABLE = 255


def _invalid(sentence: str, location: At = At.DW10) -> StatusError:
    return StatusError(Status.INVALID_FIELD, sentence, location=location)


def _action(kind: type[_Action], value: int, location: At = At.DW10) -> _Action:
    try:
        return kind(value)
    except ValueError:
        raise _invalid(f"{kind.__name__} {value} is unknown", location) from None


def _keys(request: Request, count: int) -> tuple[int, ...]:
    try:
        return keys(request.data, count)
    except DecodeError as error:
        raise StatusError(Status.SGL_DATA_LENGTH_INVALID, str(error)) from None


def _place(controller: Controller, request: Request) -> Reservation:
    """Return the reservation of the command's namespace, which must exist and be accessible."""
    nsid = find_accessible(controller, request.sqe.nsid).nsid
    return controller.subsystem.reservations.get(nsid)


def _commit(controller: Controller, request: Request, act: Action) -> Completion | None:
    keeper, nsid = controller.subsystem.reservations, request.sqe.nsid
    return answer(controller, request, lambda done: keeper.commit(nsid, act, done, controller))


def register(controller: Controller, request: Request) -> Completion | None:
    """Reservation Register."""
    _place(controller, request)
    dw10 = RegisterDw10.decode(request.sqe.cdw10)
    change = _action(PersistenceChange, dw10.cptpl, At.CPTPL)
    action = _action(RegisterAction, dw10.rrega)
    current, new = _keys(request, 2)

    def act(now: Reservation) -> Outcome:
        outcome = reservations.register(
            now, controller.hostid, action, current, new, ignore=bool(dw10.iekey)
        )
        if change is PersistenceChange.NONE:
            return outcome
        lasting = replace(outcome.reservation, ptpl=change is PersistenceChange.SET)
        return outcome._replace(reservation=lasting)

    return _commit(controller, request, act)


def acquire(controller: Controller, request: Request) -> Completion | None:
    """Reservation Acquire.

    Preempt and Abort aborts the preempted hosts' commands of which nothing was done yet, and
    completes when their other commands have ended, also those of controllers that are gone.
    """
    _place(controller, request)
    dw10 = AcquireDw10.decode(request.sqe.cdw10)
    if dw10.iekey:
        raise _invalid("Acquire does not support Ignore Existing Key", At.IEKEY)
    action = _action(AcquireAction, dw10.racqa)
    rtype = _action(ReservationType, dw10.rtype, At.RTYPE)
    current, preempted = _keys(request, 2)
    host, removed = controller.hostid, frozenset[bytes]()
    nsid, lasting = request.sqe.nsid, controller.subsystem.lasting

    def act(now: Reservation) -> Outcome:
        nonlocal removed
        outcome = reservations.acquire(now, host, action, rtype, current, preempted)
        removed = outcome.removed
        return outcome

    def begin(done: Done) -> None:
        def committed(failure: StatusError | None) -> None:
            if failure is None and action is AcquireAction.PREEMPT_AND_ABORT:
                # Write Uncorrectable is not of the engine: one may still be in line to be stored.
                _abort(controller, nsid, removed, lambda: lasting.settled(nsid, lambda: done(None)))
            else:
                done(failure)

        controller.subsystem.reservations.commit(nsid, act, committed, controller)

    return answer(controller, request, begin)


def _abort(controller: Controller, nsid: int, hosts: Set[bytes], then: Callable[[], None]) -> None:
    subsystem = controller.subsystem
    losers = [c for c in subsystem.controllers.values() if c.hostid in hosts]
    if not any(loser.connected_io_queues() for loser in losers):
        then()
        return
    ended = False

    def end() -> None:
        nonlocal ended
        ended = True
        then()

    def evict() -> None:
        for queue in [] if ended else [q for one in losers for q in one.connected_io_queues()]:
            queue.handle.disconnect()

    subsystem.when_ended(losers, nsid, end, Status.ABORTED_PREEMPT)
    if subsystem.call_later is not None and not ended:
        subsystem.call_later(ABORT_TIMEOUT, evict)


def release(controller: Controller, request: Request) -> Completion | None:
    """Reservation Release."""
    _place(controller, request)
    dw10 = ReleaseDw10.decode(request.sqe.cdw10)
    if dw10.iekey:
        raise _invalid("Release does not support Ignore Existing Key", At.IEKEY)
    (current,) = _keys(request, 1)
    action = _action(ReleaseAction, dw10.rrela)

    def act(now: Reservation) -> Outcome:
        if action is ReleaseAction.CLEAR:
            return reservations.clear(now, controller.hostid, current)
        return reservations.release(now, controller.hostid, dw10.rtype, current)

    return _commit(controller, request, act)


def report(controller: Controller, request: Request) -> Completion:
    """Reservation Report, extended, because host identifiers over fabrics have 128 bits."""
    now = _place(controller, request)
    if not request.sqe.cdw11 & _EXTENDED:
        raise StatusError(
            Status.HOST_IDENTIFIER_INCONSISTENT_FORMAT,
            "host identifiers have 128 bits: request the extended data structure",
        )
    length = 4 * (request.sqe.cdw10 + 1)
    if length > controller.subsystem.mdts:
        raise _invalid(f"{length} bytes exceed MDTS")
    expect_length(request, length)
    cntlids: dict[bytes, list[int]] = {}
    for one in controller.subsystem.controllers.values():
        cntlids.setdefault(one.hostid, []).append(one.cntlid)
    entries = [
        RegistrantEntry(cntlid, int(now.holds(host)), key, host)
        for host, key in now.registrants.items()
        for cntlid in cntlids.get(host, [0xFFFF])
    ]
    status = ReservationStatus(now.gen, int(now.rtype or 0), int(now.ptpl), tuple(entries))
    return Completion(data=status.encode()[:length].ljust(length, b"\0"))


IO_HANDLERS: dict[int, Handler] = {
    IoOpcode.RESERVATION_REGISTER: register,
    IoOpcode.RESERVATION_REPORT: report,
    IoOpcode.RESERVATION_ACQUIRE: acquire,
    IoOpcode.RESERVATION_RELEASE: release,
}
"""Commands of I/O queues that the engine does not execute."""


# ---- features, log page ----


def _nsid(controller: Controller, request: Request) -> int:
    return find_accessible(controller, request.sqe.nsid).nsid


def get_mask(controller: Controller, request: Request) -> Completion:
    """Get the Reservation Notification Mask of a namespace."""
    expect_length(request, 0)
    return Completion(controller.reservation_masks.get(_nsid(controller, request), 0))


def set_mask(controller: Controller, request: Request) -> Completion:
    """Set the Reservation Notification Mask of a namespace, or of all."""
    expect_length(request, 0)
    mask = request.sqe.cdw11 & _MASK
    chosen = chosen_namespaces(controller, request.sqe.nsid)
    controller.reservation_masks.update(dict.fromkeys(chosen, mask))
    return Completion()


def get_persistence(controller: Controller, request: Request) -> Completion:
    """Get the Reservation Persistence of a namespace."""
    expect_length(request, 0)
    nsid = _nsid(controller, request)
    return Completion(int(controller.subsystem.reservations.get(nsid).ptpl))


def set_persistence(controller: Controller, request: Request) -> Completion | None:
    """Set the Reservation Persistence of a namespace, or of all; requires a state_dir."""
    expect_length(request, 0)
    keeper = controller.subsystem.reservations
    ptpl = bool(request.sqe.cdw11 & 1)
    chosen = chosen_namespaces(controller, request.sqe.nsid)

    def act(now: Reservation) -> Outcome:
        return Outcome(replace(now, ptpl=ptpl))

    def begin(done: Done) -> None:
        each(chosen, lambda one, ended: keeper.commit(one, act, ended, controller), done)

    return answer(controller, request, begin)


def notification_page(controller: Controller) -> bytes:
    """Return the oldest unread notification."""
    notices = controller.reservation_notices
    if not notices:
        return NotificationPage().encode()
    count, kind, nsid = notices[0]
    return NotificationPage(count, kind, min(len(notices) - 1, _MOST_AVAILABLE), nsid).encode()


def notification_read(controller: Controller) -> None:
    """Mark the oldest notification as read, and notify the host of further ones."""
    notices = controller.reservation_notices
    if notices:
        notices.popleft()
    if notices:
        controller.events.post(RESERVATION_NOTICE)
