# SPDX-License-Identifier: BSD-3-Clause
"""The namespaces of a controller, over its connections.

A target that restarts, or a different one at its address, may give an NSID to a different
namespace.  The object of the old namespace must not write to the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakValueDictionary

from nvmf.initiator.base.geometry import identifiers
from nvmf.initiator.client import inventory
from nvmf.initiator.client.admin import Admin
from nvmf.initiator.client.namespace import Namespace
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds

log = logging.getLogger(__name__)
_TOLD = 8
"""Namespaces of a reading that cannot be used and are logged one by one."""


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
        self._tell({nsid: str(error) for nsid, error in failed.items()})
        before, self._serial = self._serial or serial, serial
        for nsid in self.active.keys() - found.keys():
            self._gone[nsid] = self.active.pop(nsid)
        for nsid, error in failed.items():
            self._suspend(nsid, str(error))
        for nsid, (info, ids) in found.items():
            if ids is None and self._hidden(nsid, info):
                self._suspend(nsid, "the controller no longer reports its identifiers")
                continue
            ids = ids or NamespaceIds()
            self.active[nsid] = self._same(nsid, info, ids, before) or self._make(nsid, info, ids)

    def _tell(self, refused: dict[int, str]) -> None:
        """Log namespaces that cannot be used: at each reading only what has changed."""
        fresh = [nsid for nsid, why in refused.items() if self._refused.get(nsid) != why]
        for nsid in fresh[:_TOLD]:
            log.warning("namespace %d cannot be used: %s", nsid, refused[nsid])
        if len(fresh) > _TOLD:
            log.warning(
                "%s: %d further namespaces cannot be used", self._subnqn, len(fresh) - _TOLD
            )
        self._refused = refused

    def is_suspended(self, namespace: Namespace) -> bool:
        """Return whether a namespace may be usable once it is read again."""
        return bool(namespace.replaced) and self._gone.get(namespace.nsid) is namespace

    def _suspend(self, nsid: int, why: str) -> None:
        """Refuse the commands of a namespace until it is identified: it may be a different one."""
        one = self.active.pop(nsid, None) or self._gone.get(nsid)
        if one is not None:
            self._gone[nsid] = one
            one.replaced = f"namespace {nsid} of {self._subnqn} could not be identified: {why}"
            log.error("%s", one.replaced)

    def _hidden(self, nsid: int, info: IdentifyNamespace) -> bool:
        """Return whether identifiers of a known namespace are missing, without descriptors."""
        one = self.active.get(nsid) or self._gone.get(nsid)
        if one is None:
            return False
        old, new = identifiers(one.info, one.ids), identifiers(info, NamespaceIds())
        return any(old[name] and not new[name] for name in old)

    def _same(
        self, nsid: int, info: IdentifyNamespace, ids: NamespaceIds, serial: str
    ) -> Namespace | None:
        """Return the existing object of the namespace; None if there is none."""
        one = self.active.get(nsid) or self._gone.pop(nsid, None)
        if one is None:
            return None
        why = one.difference(info, ids)
        if not why and not one.identified and serial != self._serial:
            why = f"it has no identifier, and the serial number is {self._serial}, not {serial}"
        if why:
            one.replaced = f"namespace {nsid} of {self._subnqn} is not the same as before: {why}"
            log.error("%s", one.replaced)
            return None
        one.info, one.ids, one.replaced = info, ids, ""
        return one
