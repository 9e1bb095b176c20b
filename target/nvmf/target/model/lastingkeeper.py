# SPDX-License-Identifier: BSD-3-Clause
"""Write protection and invalid blocks of a subsystem's namespaces: enforced and stored.

There is one file per namespace that has any, named by UUID, in the folder ``namespaces`` of the
state folder.  This state belongs to the namespace, so the engine enforces it for every host.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nvmf.spec.features import WriteProtection
from nvmf.spec.identify import Nwpc
from nvmf.spec.status import DNR, Status, StatusError
from nvmf.target.command.gates import OPEN, UNKNOWN, Gate
from nvmf.target.command.later import Done
from nvmf.target.lasting.lasting import Lasting, encode, load
from nvmf.target.lasting.namespacefiles import NamespaceFiles
from nvmf.target.lasting.state import DamagedState
from nvmf.target.model.commits import Commits, Plan

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller
    from nvmf.target.model.namespace import Namespace
    from nvmf.target.model.subsystem import Subsystem

log = logging.getLogger("nvmf.target")

_NONE = Lasting()
_PROTECTED = Gate(write=Status.NAMESPACE_WRITE_PROTECTED | DNR)

Change: TypeAlias = Callable[[Lasting], Lasting]
"""Returns the new state for the present one; raises StatusError if the change is refused."""


class LastingKeeper:
    """The state of a subsystem's namespaces other than their data.

    folder: where the state is stored.  Without one there is no write protection, because the
    specification requires it to persist, and invalid blocks are forgotten when the target ends.
    """

    def __init__(self, subsystem: Subsystem, folder: Path | None = None) -> None:
        self._subsystem = subsystem
        self.files = NamespaceFiles(folder, load) if folder is not None else None
        """None: nothing is stored."""
        self._now: dict[int, Lasting] = {}
        self._closing: set[int] = set()
        """Namespaces that are about to be write protected."""
        self._expected: dict[int, Lasting] = {}
        self._unknown: dict[int, DamagedState] = {}
        self._commits: Commits[Lasting] = Commits(subsystem)

    @property
    def nwpc(self) -> Nwpc:
        """Namespace Write Protection Capabilities."""
        if self.files is None:
            return Nwpc(0)
        if self._subsystem.permanent_protection:
            return Nwpc.WRITE_PROTECT | Nwpc.UNTIL_POWER_CYCLE | Nwpc.PERMANENT
        return Nwpc.WRITE_PROTECT

    def get(self, nsid: int) -> Lasting:
        """Return a namespace's state; raise Namespace Not Ready if it is unknown."""
        if nsid in self._unknown:
            raise StatusError(Status.NAMESPACE_NOT_READY, str(self._unknown[nsid]))
        return self.state(nsid)

    def state(self, nsid: int) -> Lasting:
        """Return a namespace's state; an empty one if it is unknown."""
        return self._now.get(nsid, _NONE)

    def gate(self, nsid: int) -> Gate:
        """Return the gate for commands of all hosts."""
        if nsid in self._unknown:
            return UNKNOWN
        return _PROTECTED if self.protected(nsid) else OPEN

    def protected(self, nsid: int) -> bool:
        """Return whether writes are refused, as far as known."""
        unprotected = self.state(nsid).protection is WriteProtection.NONE
        return nsid in self._closing or not unprotected

    def closing(self, nsid: int) -> bool:
        """Return whether a namespace is about to be write protected."""
        return nsid in self._closing

    def come(self, namespace: Namespace) -> None:
        """Add a namespace, before hosts see it, with its expected or stored state."""
        nsid = namespace.nsid
        expected = self._expected.pop(nsid, None)
        self.go(nsid)
        try:
            if expected is not None:
                self._now[nsid] = expected
                if self.files is not None:
                    self.files.forget(nsid)
            elif self.files is not None:
                found = self.files.take(nsid, namespace.identity.uuid)
                if found is not None:
                    self._now[nsid] = found.outliving(data=_data_lasts(namespace))
        except DamagedState as error:
            log.error("namespace %d of %s is refused: %s", nsid, self._subsystem.nqn, error)
            self._unknown[nsid] = error
        self._enforce(namespace)
        if self.state(nsid).invalid:
            namespace.engine.set_invalid(self.state(nsid).invalid)

    def go(self, nsid: int) -> None:
        """Remove a namespace; its stored state is kept for its return."""
        self._now.pop(nsid, None)
        self._unknown.pop(nsid, None)
        self._closing.discard(nsid)

    def leaving(self, nsid: int) -> Lasting:
        """Return the state of a namespace about to be removed, including one being stored."""
        return self._commits.leaving(nsid, self.state(nsid))

    def expect(self, nsid: int, lasting: Lasting) -> None:
        """Set the state for the next come() of a namespace, instead of the stored one."""
        if lasting != _NONE:  # a damaged file gives _NONE, too
            self._expected[nsid] = lasting

    def close(self, nsid: int, closing: bool = True) -> None:
        """Refuse writes from now on, or (closing False) end this temporary refusal."""
        if closing:
            self._closing.add(nsid)
        else:
            self._closing.discard(nsid)
        namespace = self._subsystem.namespaces.get(nsid)
        if namespace is not None:
            self._enforce(namespace)

    def commit(self, nsid: int, change: Change, done: Done, by: Controller | None = None) -> None:
        """Change a namespace's state: store the new state, then put it into effect.

        Otherwise as Commits.add().  by: the controller of the requesting host.
        """

        def begin(namespace: Namespace) -> Plan[Lasting]:
            before = self.get(nsid)
            after = change(before)
            enter = partial(self._put, namespace, before, after, by)
            data = _data_lasts(namespace)
            lasts = after.outliving(data=data)
            if self.files is None or lasts == before.outliving(data=data):
                return Plan(after, enter)
            return Plan(after, enter, self.files, encode(lasts) if lasts != _NONE else None)

        self._commits.add(nsid, begin, done)

    def settled(self, nsid: int, then: Callable[[], None]) -> None:
        """Call then when the changes requested before have taken effect or failed."""
        self._commits.settled(nsid, then)

    def _put(
        self, namespace: Namespace, before: Lasting, after: Lasting, by: Controller | None
    ) -> None:
        """Put the new state into effect."""
        if after == before:
            return
        if after.invalid != before.invalid:
            namespace.engine.set_invalid(after.invalid)
        self._now[namespace.nsid] = after
        self._enforce(namespace)
        if after.protection is not before.protection:
            log.info(
                "%s: namespace %d: write protection %s",
                by if by is not None else self._subsystem.nqn,
                namespace.nsid,
                after.protection.name.replace("_", " ").lower(),
                extra={"subnqn": self._subsystem.nqn, "nsid": namespace.nsid},
            )

    def _enforce(self, namespace: Namespace) -> None:
        gate = self.gate(namespace.nsid)
        namespace.engine.gate(read=gate.read, write=gate.write, flush=gate.flush)


def _data_lasts(namespace: Namespace) -> bool:
    return namespace.store.path is not None
