# SPDX-License-Identifier: BSD-3-Clause
"""Changes of the legs of mirrors: in a configuration, and in the stores that are open."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from nvmf.config.mirror import LegConfig
from nvmf.config.models import Config, NamespaceConfig
from nvmf.target.change import edit
from nvmf.target.change.diff import Difference
from nvmf.target.change.edit import EditError
from nvmf.target.commands.core import Core
from nvmf.target.io.storage import Storage
from nvmf.target.io.stores import ServerError
from nvmf.target.model.namespace import Namespace

log = logging.getLogger("nvmf.target")


def find_mirror(config: Config, nqn: str, nsid: int) -> NamespaceConfig:
    """Return the namespace, which must be a mirror."""
    found = edit.find_namespace(config, nqn, nsid)
    if found.store != "mirror":
        raise EditError(f"namespace {nsid} of {nqn} is no mirror: its store is {found.store}")
    return found


def _place(config: NamespaceConfig, name: str) -> int:
    names = [leg.name for leg in config.legs]
    if name not in names:
        raise EditError(f"the mirror has no leg {name}: it has {', '.join(names)}")
    return names.index(name)


def add_leg(config: Config, nqn: str, nsid: int, leg: LegConfig, quorum: int | None) -> Config:
    """Add a leg to a mirror; quorum: the new one, if it changes."""
    found = find_mirror(config, nqn, nsid)
    if leg.name in [one.name for one in found.legs]:
        raise EditError(f"{leg.name} is already a leg of namespace {nsid} of {nqn}")
    legs = (*found.legs, leg)
    return edit.change_namespace(config, nqn, nsid, legs=legs, quorum=quorum or found.quorum)


def remove_leg(config: Config, nqn: str, nsid: int, name: str, quorum: int | None) -> Config:
    """Remove a leg of a mirror, which keeps at least two; quorum: the new one, if it changes."""
    found = find_mirror(config, nqn, nsid)
    place = _place(found, name)
    if len(found.legs) == 2:
        raise EditError("a mirror has at least two legs: replace this one, or add one first")
    legs = (*found.legs[:place], *found.legs[place + 1 :])
    return edit.change_namespace(config, nqn, nsid, legs=legs, quorum=quorum or found.quorum)


def replace_leg(config: Config, nqn: str, nsid: int, name: str, leg: LegConfig) -> Config:
    """Replace a leg of a mirror."""
    found = find_mirror(config, nqn, nsid)
    place = _place(found, name)
    legs = (*found.legs[:place], leg, *found.legs[place + 1 :])
    return edit.change_namespace(config, nqn, nsid, legs=legs)


async def change_mirrors(
    difference: Difference, core: Core, storage: Storage, undo: AsyncExitStack
) -> None:
    """Give open mirrors their new legs; raise ServerError if one cannot have them."""
    for change in difference.changed:
        nqn = change.new.nqn
        for nsid, (old, new) in change.mirrored.items():
            namespace = core.subsystems[nqn].namespaces[nsid]
            try:
                await storage.reconfigure(namespace, new)
            except OSError as error:
                raise ServerError(
                    f"cannot change the legs of namespace {nsid} of {nqn}: "
                    f"{error.strerror or error}"
                ) from error
            undo.push_async_callback(_put_back, storage, namespace, old)


async def _put_back(storage: Storage, namespace: Namespace, config: NamespaceConfig) -> None:
    try:
        await storage.reconfigure(namespace, config)
    except OSError as error:
        log.error("namespace %d keeps its new legs: %s", namespace.nsid, error.strerror or error)
