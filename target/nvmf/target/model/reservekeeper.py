# SPDX-License-Identifier: BSD-3-Clause
"""The reservations of a subsystem: enforced for its controllers, and stored if persistent.

There is one file per namespace, named by UUID, in the folder ``reservations`` of the state folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from nvmf.check import checked
from nvmf.json import JSON
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
"""Returns the outcome for a reservation; raises StatusError if the action is refused."""


class ReservationKeeper:
    """The reservations in a subsystem.

    folder: where persistent reservations are stored; None: requests for persistence are refused.
    """

    def __init__(self, subsystem: Subsystem, folder: Path | None = None) -> None:
        self._subsystem = subsystem
        self.files = NamespaceFiles(folder, load) if folder is not None else None
        """None: nothing is stored."""
        lasting = Rescap.PTPL if folder is not None else Rescap(0)
        self.rescap = Rescap.ALL_TYPES | Rescap.IEKEY | lasting
        """Reservation Capabilities of its namespaces."""
        self._now: dict[int, Reservation] = {}
        self._commits: Commits[Reservation] = Commits(subsystem)
        self._expected: dict[int, Reservation] = {}
        self._unknown: dict[int, DamagedState] = {}
        """Namespaces with a damaged file: commands are refused until it is repaired."""

    def get(self, nsid: int) -> Reservation:
        """Return a namespace's reservation; raise Namespace Not Ready if it is unknown."""
        if nsid in self._unknown:
            raise StatusError(Status.NAMESPACE_NOT_READY, str(self._unknown[nsid]))
        return self.state(nsid)

    def state(self, nsid: int) -> Reservation:
        """Return a namespace's reservation; an empty one if it is unknown."""
        return self._now.get(nsid, _NONE)

    def come(self, namespace: Namespace) -> None:
        """Add a namespace, before hosts see it, with its expected or stored reservation."""
        nsid = namespace.nsid
        expected = self._expected.pop(nsid, None)
        self.go(nsid)
        try:
            if expected is not None:
                self._now[nsid] = expected
                if self.files is not None:
                    self.files.forget(nsid)
            elif self.files is not None and (
                found := self.files.take(nsid, namespace.identity.uuid)
            ):
                self._now[nsid] = found
        except DamagedState as error:
            log.error("namespace %d of %s is refused: %s", nsid, self._subsystem.nqn, error)
            self._unknown[nsid] = error
        self._enforce(nsid)

    def go(self, nsid: int) -> None:
        """Remove a namespace; a stored reservation is kept for its return."""
        self._now.pop(nsid, None)
        self._unknown.pop(nsid, None)
        self._enforce(nsid)

    def expect(self, nsid: int, reservation: Reservation) -> None:
        """Set the reservation for the next come() of a namespace, instead of the stored one."""
        if reservation != _NONE:  # a damaged file gives _NONE, too
            self._expected[nsid] = reservation

    def joined(self, controller: Controller) -> None:
        """Apply the reservations to a new controller."""
        for nsid in (*self._now, *self._unknown):
            controller.gates.set(nsid, GateReason.RESERVATION, self._gate(nsid, controller))

    def leaving(self, nsid: int) -> Reservation:
        """Return the reservation of a namespace about to be removed, including one being stored."""
        return self._commits.leaving(nsid, self.state(nsid))

    def commit(self, nsid: int, action: Action, done: Done, by: Controller | None = None) -> None:
        """Apply an action: store the result if persistent, then put it into effect.

        The hosts concerned are notified, then done is called; otherwise as Commits.add().  by: the
        acting controller.
        """

        def begin(namespace: Namespace) -> Plan[Reservation]:
            before = self.get(nsid)
            outcome = action(before)
            after = outcome.reservation
            enter = partial(self._put, nsid, before, outcome, by)
            if after == before or not (before.ptpl or after.ptpl):
                return Plan(after, enter)
            if self.files is None:
                raise StatusError(
                    Status.INVALID_FIELD,
                    "reservations cannot persist: the target has no state_dir",
                )
            return Plan(after, enter, self.files, encode(after) if after.ptpl else None)

        def fenced(failure: StatusError | None) -> None:
            # A host that was excluded cannot write to the namespace's memory after the response.
            if failure is None:
                self._subsystem.when_fenced(lambda: done(None))
            else:
                done(failure)

        self._commits.add(nsid, begin, fenced)

    def _put(self, nsid: int, before: Reservation, outcome: Outcome, by: Controller | None) -> None:
        """Put an outcome into effect, and notify hosts."""
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

    def gate(self, nsid: int, hostid: bytes) -> Gate:
        """Return the gate for a host."""
        return UNKNOWN if nsid in self._unknown else self.state(nsid).gate(hostid)

    def _gate(self, nsid: int, controller: Controller) -> Gate:
        return self.gate(nsid, controller.hostid)

    def _enforce(self, nsid: int) -> None:
        for controller in self._subsystem.controllers.values():
            controller.gates.set(nsid, GateReason.RESERVATION, self._gate(nsid, controller))


def encode(reservation: Reservation) -> bytes:
    """Encode a reservation for its file: JSON with a CRC-32."""
    body = {
        "format": _FORMAT,
        "rtype": int(reservation.rtype or 0),
        "holder": reservation.holder.hex() if reservation.holder else None,
        "registrants": [[host.hex(), key] for host, key in reservation.registrants.items()],
    }
    return seal("reservation", body)


def load(path: Path) -> Reservation | None:
    """Load a reservation; None if there is no file; raise DamagedState if the file is invalid.

    The generation restarts at 0 with every start of the target (Base 2.0, 7.4).
    """
    return unseal(
        path,
        "reservation",
        _decode,
        "the reservation of the namespace is unknown. Restore a copy, or remove the file, which "
        "ends the reservation",
    )


class _Body(TypedDict):
    """The content of a file."""

    format: int
    rtype: int
    holder: str | None
    registrants: list[list[str | int]]
    """Host and key each."""


def _decode(value: JSON) -> Reservation:
    body = checked(_Body, value, name="reservation")
    if body["format"] != _FORMAT:
        raise ValueError(f"its format is {body['format']}, not {_FORMAT}")
    registrants = {bytes.fromhex(str(host)): int(key) for host, key in body["registrants"]}
    rtype = ReservationType(body["rtype"]) if body["rtype"] else None
    holder = bytes.fromhex(body["holder"]) if body["holder"] else None
    return Reservation(MappingProxyType(registrants), rtype, holder, ptpl=True)
