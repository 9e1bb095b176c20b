# SPDX-License-Identifier: BSD-3-Clause
"""The reservations of a subsystem: in force for its controllers, and on disk where they last.

One file for each namespace, by its UUID, in the folder ``reservations`` of the state folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from nvmf.spec.reservations import Rescap, ReservationType
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.gates import UNKNOWN, Gate, GateReason
from nvmf.target.command.later import Done
from nvmf.target.lasting.namespacefiles import NamespaceFiles
from nvmf.target.lasting.reservations import Outcome, Reservation
from nvmf.target.lasting.state import DamagedState, seal, unseal
from nvmf.target.model.commits import Commits, Plan

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller
    from nvmf.target.model.namespace import Namespace
    from nvmf.target.model.subsystem import Subsystem

log = logging.getLogger("nvmf.target")

_NONE = Reservation()
_FORMAT = 1

Action: TypeAlias = Callable[[Reservation], Outcome]
"""Given what is reserved, what it leads to; StatusError where it may not be."""


class ReservationKeeper:
    """What is reserved in a subsystem.

    folder is where it lasts; without one nothing does, and hosts that ask for it are refused.
    """

    def __init__(self, subsystem: Subsystem, folder: Path | None = None) -> None:
        self._subsystem = subsystem
        self._files = NamespaceFiles(folder) if folder is not None else None
        lasting = Rescap.PTPL if folder is not None else Rescap(0)
        self.rescap = Rescap.ALL_TYPES | Rescap.IEKEY | lasting
        """Reservation Capabilities of its namespaces."""
        self._now: dict[int, Reservation] = {}
        self._commits: Commits[Reservation] = Commits(subsystem)
        self._expected: dict[int, Reservation] = {}
        self._unknown: dict[int, DamagedState] = {}
        """Namespaces whose file is damaged: their hosts are refused until it is mended."""

    def get(self, nsid: int) -> Reservation:
        """What is reserved of a namespace; Namespace Not Ready where that is not known."""
        if nsid in self._unknown:
            raise StatusError(Status.NAMESPACE_NOT_READY, str(self._unknown[nsid]))
        return self.state(nsid)

    def state(self, nsid: int) -> Reservation:
        """The same, as far as it is known."""
        return self._now.get(nsid, _NONE)

    def come(self, namespace: Namespace) -> None:
        """A namespace comes, before hosts see it: with what was expected of it, or lasts."""
        nsid = namespace.nsid
        expected = self._expected.pop(nsid, None)
        self.go(nsid)
        try:
            if expected is not None:
                self._now[nsid] = expected
            elif self._files is not None and (
                found := load(self._files.path(namespace.identity.uuid))
            ):
                self._now[nsid] = found
        except DamagedState as error:
            log.error("namespace %d of %s is refused: %s", nsid, self._subsystem.nqn, error)
            self._unknown[nsid] = error
        self._enforce(nsid)

    def go(self, nsid: int) -> None:
        """A namespace goes; what lasts waits for its return."""
        self._now.pop(nsid, None)
        self._unknown.pop(nsid, None)
        self._enforce(nsid)

    def expect(self, nsid: int, reservation: Reservation) -> None:
        """What a namespace comes with next in the place of what lasts: it was there until now."""
        if reservation != _NONE:  # which a damaged file is, too
            self._expected[nsid] = reservation

    def joined(self, controller: Controller) -> None:
        """A controller comes under what is reserved."""
        for nsid in (*self._now, *self._unknown):
            controller.gates.set(nsid, GateReason.RESERVATION, self._gate(nsid, controller))

    def leaving(self, nsid: int) -> Reservation:
        """What a namespace takes along that goes now: what is in its file soon, too."""
        return self._commits.leaving(nsid, self.state(nsid))

    def commit(self, nsid: int, action: Action, done: Done, by: Controller | None = None) -> None:
        """Put what an action leads to in force, after it is made to last where it has to.

        The hosts that it concerns are told, then done is called: Commits.add's, as all else is.
        by: whose action it is.
        """

        def begin(namespace: Namespace) -> Plan[Reservation]:
            before = self.get(nsid)
            outcome = action(before)
            after = outcome.reservation
            enter = partial(self._put, nsid, before, outcome, by)
            if after == before or not (before.ptpl or after.ptpl):
                return Plan(after, enter)
            if self._files is None:
                raise StatusError(
                    Status.INVALID_FIELD,
                    "reservations do not outlast the target, which has no state_dir",
                )
            return Plan(after, enter, self._files, encode(after) if after.ptpl else None)

        self._commits.add(nsid, begin, done)

    def _put(self, nsid: int, before: Reservation, outcome: Outcome, by: Controller | None) -> None:
        """In force, and told."""
        after = outcome.reservation
        if after != before:
            self._now[nsid] = after
            self._enforce(nsid)
            log.info(
                "%s: namespace %d: %d registrants, reservation %s",
                by if by is not None else self._subsystem.nqn,
                nsid,
                len(after.registrants),
                after.rtype.name.replace("_", " ").lower() if after.rtype else "none",
                extra={"subnqn": self._subsystem.nqn, "nsid": nsid},
            )
        for controller in self._subsystem.controllers.values():
            what = outcome.notifications.get(controller.hostid)
            if what is not None:
                controller.reservation_changed(nsid, what)

    def _gate(self, nsid: int, controller: Controller) -> Gate:
        if nsid in self._unknown:
            return UNKNOWN
        return self.state(nsid).gate(controller.hostid)

    def _enforce(self, nsid: int) -> None:
        for controller in self._subsystem.controllers.values():
            controller.gates.set(nsid, GateReason.RESERVATION, self._gate(nsid, controller))


def encode(reservation: Reservation) -> bytes:
    """A reservation as its file has it: JSON with a CRC-32 of what is in it."""
    body = {
        "format": _FORMAT,
        "rtype": int(reservation.rtype or 0),
        "holder": reservation.holder.hex() if reservation.holder else None,
        "registrants": [[host.hex(), key] for host, key in reservation.registrants.items()],
    }
    return seal("reservation", body)


def load(path: Path) -> Reservation | None:
    """The reservation of a file; None where there is no file; DamagedState where it is another.

    The generation starts at 0 again with every start of the target (Base 2.0, 7.4).
    """
    return unseal(
        path,
        "reservation",
        _decode,
        "who has reserved the namespace is not known. Put back a copy, or remove the file, which "
        "ends the reservation",
    )


def _decode(body: Any) -> Reservation:
    if body["format"] != _FORMAT:
        raise ValueError(f"its format is {body['format']}, and {_FORMAT} is known")
    registrants = {bytes.fromhex(host): int(key) for host, key in body["registrants"]}
    rtype = ReservationType(body["rtype"]) if body["rtype"] else None
    holder = bytes.fromhex(body["holder"]) if body["holder"] else None
    return Reservation(MappingProxyType(registrants), rtype, holder, ptpl=True)
