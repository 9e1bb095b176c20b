# SPDX-License-Identifier: BSD-3-Clause
"""The write protection and the invalid blocks of a subsystem's namespaces: in force, and on disk.

One file for each namespace that has any, by its UUID, in the folder ``namespaces`` of the state
folder.  They are the namespace's own, so that the engine enforces them for every host.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from nvmf.spec.features import WriteProtection
from nvmf.spec.identify import Nwpc
from nvmf.spec.status import DNR, Status, StatusError
from nvmf.target.gates import OPEN, Gate
from nvmf.target.lasting import Lasting, encode, load
from nvmf.target.state import DamagedState, make_folder, remove, write_atomically

if TYPE_CHECKING:
    from nvmf.target.namespace import Namespace
    from nvmf.target.subsystem import Subsystem

log = logging.getLogger("nvmf.target")

_NONE = Lasting()
_PROTECTED = Gate(write=Status.NAMESPACE_WRITE_PROTECTED | DNR)
_UNKNOWN = Gate(*[Status.NAMESPACE_NOT_READY | DNR] * 3)


class LastingKeeper:
    """What namespaces of a subsystem have besides their data.

    folder is where it lasts.  Without one there is no write protection, which the specification
    wants to last, and invalid blocks are forgotten with the target.
    """

    def __init__(self, subsystem: Subsystem, folder: Path | None = None) -> None:
        self._subsystem = subsystem
        self._folder = folder
        self._now: dict[int, Lasting] = {}
        self._closing: set[int] = set()
        """On their way to be write protected."""
        self._expected: dict[int, Lasting] = {}
        self._unknown: dict[int, DamagedState] = {}

    @property
    def nwpc(self) -> Nwpc:
        """Namespace Write Protection Capabilities."""
        if self._folder is None:
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
            return _UNKNOWN
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
            elif self._folder is not None:
                found = load(self._path(namespace.identity.uuid))
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

    def commit(self, nsid: int, after: Lasting) -> None:
        """Put a state in force, after it is made to last.

        Internal Error where that cannot be: nothing has changed then.
        """
        before = self.get(nsid)
        if after == before:
            return
        namespace = self._subsystem.namespaces[nsid]
        self._save(namespace, before, after)
        self._now[nsid] = after
        self._enforce(namespace)
        if after.invalid != before.invalid:
            namespace.engine.set_invalid(after.invalid)
        if after.protection is not before.protection:
            log.info(
                "namespace %d of %s: write protection %s",
                nsid,
                self._subsystem.nqn,
                after.protection.name.replace("_", " ").lower(),
            )

    def _enforce(self, namespace: Namespace) -> None:
        gate = self.gate(namespace.nsid)
        namespace.engine.gate(read=gate.read, write=gate.write, flush=gate.flush)

    # ---- on disk ----

    def _path(self, uuid: UUID) -> Path:
        assert self._folder is not None
        return self._folder / f"{uuid}.json"

    def _save(self, namespace: Namespace, before: Lasting, after: Lasting) -> None:
        data = _data_lasts(namespace)
        old, new = before.outliving(data=data), after.outliving(data=data)
        if self._folder is None or old == new:
            return
        path = self._path(namespace.identity.uuid)
        try:
            if new != _NONE:
                make_folder(self._folder)
                write_atomically(path, encode(new))
            else:
                remove(path)
        except OSError as error:
            log.error("%s cannot be written: %s; the command is refused", path, error.strerror)
            raise StatusError(
                Status.INTERNAL_ERROR, f"{path} cannot be written: {error.strerror}"
            ) from error


def _data_lasts(namespace: Namespace) -> bool:
    return namespace.store.path is not None
