# SPDX-License-Identifier: BSD-3-Clause
"""The write protection and the invalid blocks of a subsystem's namespaces: in force, and on disk.

One file for each namespace that has any, by its UUID, in the folder ``namespaces`` of the state
folder.  They are the namespace's own, so that the engine enforces them for every host.
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
"""From the state that there is to another; StatusError where it cannot be."""


class LastingKeeper:
    """What namespaces of a subsystem have besides their data.

    folder is where it lasts.  Without one there is no write protection, which the specification
    wants to last, and invalid blocks are forgotten with the target.
    """

    def __init__(self, subsystem: Subsystem, folder: Path | None = None) -> None:
        self._subsystem = subsystem
        self._files = NamespaceFiles(folder) if folder is not None else None
        self._now: dict[int, Lasting] = {}
        self._closing: set[int] = set()
        """On their way to be write protected."""
        self._expected: dict[int, Lasting] = {}
        self._unknown: dict[int, DamagedState] = {}
        self._commits: Commits[Lasting] = Commits(subsystem)

    @property
    def nwpc(self) -> Nwpc:
        """Namespace Write Protection Capabilities."""
        if self._files is None:
            return Nwpc(0)
        if self._subsystem.permanent_protection:
            return Nwpc.WRITE_PROTECT | Nwpc.UNTIL_POWER_CYCLE | Nwpc.PERMANENT
        return Nwpc.WRITE_PROTECT

    def get(self, nsid: int) -> Lasting:
        """A namespace's state; Namespace Not Ready where it is not known."""
        if nsid in self._unknown:
            raise StatusError(Status.NAMESPACE_NOT_READY, str(self._unknown[nsid]))
        return self.state(nsid)

    def state(self, nsid: int) -> Lasting:
        """The same, as far as it is known."""
        return self._now.get(nsid, _NONE)

    def gate(self, nsid: int) -> Gate:
        """What commands of every host meet."""
        if nsid in self._unknown:
            return UNKNOWN
        return _PROTECTED if self.protected(nsid) else OPEN

    def protected(self, nsid: int) -> bool:
        """Whether hosts cannot write, so far as is known."""
        unprotected = self.state(nsid).protection is WriteProtection.NONE
        return nsid in self._closing or not unprotected

    def closing(self, nsid: int) -> bool:
        """Whether it is about to be write protected."""
        return nsid in self._closing

    def come(self, namespace: Namespace) -> None:
        """A namespace comes, before hosts see it: with what was expected of it, or lasts."""
        nsid = namespace.nsid
        expected = self._expected.pop(nsid, None)
        self.go(nsid)
        try:
            if expected is not None:
                self._now[nsid] = expected
            elif self._files is not None:
                found = load(self._files.path(namespace.identity.uuid))
                if found is not None:
                    self._now[nsid] = found.outliving(data=_data_lasts(namespace))
        except DamagedState as error:
            log.error("namespace %d of %s is refused: %s", nsid, self._subsystem.nqn, error)
            self._unknown[nsid] = error
        self._enforce(namespace)
        if self.state(nsid).invalid:
            namespace.engine.set_invalid(self.state(nsid).invalid)

    def go(self, nsid: int) -> None:
        """A namespace goes; what lasts waits for its return."""
        self._now.pop(nsid, None)
        self._unknown.pop(nsid, None)
        self._closing.discard(nsid)

    def leaving(self, nsid: int) -> Lasting:
        """What a namespace takes along that goes now: what is in its file soon, too."""
        return self._commits.leaving(nsid, self.state(nsid))

    def expect(self, nsid: int, lasting: Lasting) -> None:
        """What a namespace comes with next in the place of what lasts: it was there until now."""
        if lasting != _NONE:  # which a damaged file is, too
            self._expected[nsid] = lasting

    def close(self, nsid: int, closing: bool = True) -> None:
        """Refuse writes that begin from now on, or (closing False) no more for that alone."""
        if closing:
            self._closing.add(nsid)
        else:
            self._closing.discard(nsid)
        namespace = self._subsystem.namespaces.get(nsid)
        if namespace is not None:
            self._enforce(namespace)

    def commit(self, nsid: int, change: Change, done: Done, by: Controller | None = None) -> None:
        """Put what change makes of a namespace's state in force, after it is made to last.

        Commits.add's, in all else.  by: whose host asks.
        """

        def begin(namespace: Namespace) -> Plan[Lasting]:
            before = self.get(nsid)
            after = change(before)
            enter = partial(self._put, namespace, before, after, by)
            data = _data_lasts(namespace)
            lasts = after.outliving(data=data)
            if self._files is None or lasts == before.outliving(data=data):
                return Plan(after, enter)
            return Plan(after, enter, self._files, encode(lasts) if lasts != _NONE else None)

        self._commits.add(nsid, begin, done)

    def _put(
        self, namespace: Namespace, before: Lasting, after: Lasting, by: Controller | None
    ) -> None:
        """In force."""
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
