# SPDX-License-Identifier: BSD-3-Clause
"""The namespaces of a controller, over its connections.

A target that restarts, or a different one at its address, may give an NSID to a different
namespace.  The object of the old namespace must not write to the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias
from weakref import WeakValueDictionary

from nvmf.initiator.base.geometry import identifiers
from nvmf.initiator.base.telling import Telling
from nvmf.initiator.client import inventory
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.namespace import Namespace
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds

log = logging.getLogger(__name__)
_TOLD = 8
"""Namespaces of a reading that are logged one by one, of each kind of line."""
_READINGS_TOLD, _READING_PAUSE = 8, 60.0
"""Readings with something to log that are logged at once, and seconds for each further one."""

_Line: TypeAlias = tuple[str, *tuple[object, ...]]
"""Text and arguments of a line of the log."""


class Roster:
    """The namespaces that load() found last.  make() makes the object of a new namespace."""

    def __init__(
        self, subnqn: str, make: Callable[[int, IdentifyNamespace, NamespaceIds], Namespace]
    ) -> None:
        self._subnqn = subnqn
        self.active: dict[int, Namespace] = {}
        """The active namespaces, by NSID."""
        self._make = make
        self._gone: WeakValueDictionary[int, Namespace] = WeakValueDictionary()
        """Namespaces that are no longer active, but still in use by callers."""
        self._serial: str | None = None
        self._unread = False
        """The last load() did not complete."""
        self._loading = asyncio.Lock()
        self._refused: dict[int, str] = {}
        """Why namespaces could not be used at the last reading."""
        self._telling = Telling(_READINGS_TOLD, _READING_PAUSE)

    async def load(self, admin: Admin, serial: str, changed: set[int] | None = None) -> None:
        """Read the list of namespaces and their data (changed: of known ones, only of these).

        serial: serial number of the controller, which identifies namespaces without identifiers.
        """
        async with self._loading:  # the result of an earlier call must not replace a later one
            await self._load(admin, serial, changed)

    async def _load(self, admin: Admin, serial: str, changed: set[int] | None) -> None:
        sure, self._unread = not self._unread, True
        kept = self.active.keys() - changed if changed is not None and sure else ()
        known = {nsid: (self.active[nsid].info, self.active[nsid].ids) for nsid in kept}
        found, failed = await inventory.read(admin, known)
        self._unread = False
        refused = [
            ("namespace %d cannot be used: %s", nsid, error)
            for nsid, error in failed.items()
            if self._refused.get(nsid) != str(error)
        ]
        self._refused = {nsid: str(error) for nsid, error in failed.items()}
        lost: list[_Line] = []
        before, self._serial = self._serial or serial, serial
        for nsid in self.active.keys() - found.keys():
            self._gone[nsid] = self.active.pop(nsid)
        for nsid, error in failed.items():
            lost += self._suspend(nsid, error)
        for nsid, (info, ids) in found.items():
            if ids is None and self._hidden(nsid, info):
                lost += self._suspend(nsid, "the controller no longer reports its identifiers")
                continue
            ids = ids or NamespaceIds()
            same, why = self._same(nsid, info, ids, before)
            lost += why
            self.active[nsid] = same or self._make(nsid, info, ids)
        if refused or lost:
            level = self._telling.level(logging.ERROR)
            self._tell(min(level, logging.WARNING), refused, "cannot be used")
            self._tell(level, lost, "are no longer used as before")

    def _tell(self, level: int, lines: Sequence[_Line], what: str) -> None:
        """Log the first lines, and how many namespaces the others are about."""
        for text, *arguments in lines[:_TOLD]:
            log.log(level, text, *arguments)
        if len(lines) > _TOLD:
            log.log(level, "%s: %d further namespaces %s", self._subnqn, len(lines) - _TOLD, what)

    def is_suspended(self, namespace: Namespace) -> bool:
        """Return whether a namespace may be usable once it is read again."""
        return bool(namespace.replaced) and self._gone.get(namespace.nsid) is namespace

    def _suspend(self, nsid: int, why: object) -> list[_Line]:
        """Refuse the commands of a namespace until it is identified: it may be a different one.

        Return what is to be logged.
        """
        one = self.active.pop(nsid, None) or self._gone.get(nsid)
        if one is None:
            return []
        self._gone[nsid] = one
        said = f"namespace {nsid} of {self._subnqn} could not be identified: {why}"
        if one.replaced == said:
            return []
        one.replaced = said
        return [("namespace %d of %s could not be identified: %s", nsid, self._subnqn, why)]

    def _hidden(self, nsid: int, info: IdentifyNamespace) -> bool:
        """Return whether identifiers of a known namespace are missing, without descriptors."""
        one = self.active.get(nsid) or self._gone.get(nsid)
        if one is None:
            return False
        old, new = identifiers(one.info, one.ids), identifiers(info, NamespaceIds())
        return any(old[name] and not new[name] for name in old)

    def _same(
        self, nsid: int, info: IdentifyNamespace, ids: NamespaceIds, serial: str
    ) -> tuple[Namespace | None, list[_Line]]:
        """Return the existing object of the namespace, or None, and what is to be logged."""
        one = self.active.get(nsid) or self._gone.pop(nsid, None)
        if one is None:
            return None, []
        why = one.difference(info, ids)
        if not why and not one.identified and serial != self._serial:
            why = f"it has no identifier, and the serial number is {self._serial}, not {serial}"
        if why:
            one.replaced = f"namespace {nsid} of {self._subnqn} is not the same as before: {why}"
            return None, [("%s", one.replaced)]
        one.info, one.ids, one.replaced = info, ids, ""
        return one, []
