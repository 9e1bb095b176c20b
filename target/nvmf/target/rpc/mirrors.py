# SPDX-License-Identifier: BSD-3-Clause
"""Mirrors: their states, and changes of their legs while hosts use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from nvmf.config.mirror import LegConfig
from nvmf.rpc.mirror import Mirror
from nvmf.target.change import edit, legs
from nvmf.target.change.edit import EditError
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc.namespaces import OneNamespace
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class AddLeg(OneNamespace):
    leg: dict[str, JsonValue]
    """The keys of a [[subsystem.namespace.leg]]."""
    quorum: int | None = None
    """The new quorum; left out: unchanged, or more than half of the legs if none is configured."""


class RemoveLeg(OneNamespace):
    name: str
    """Its path, its URL with #NSID, or ram."""
    quorum: int | None = None
    """The new quorum; left out: unchanged, or more than half of the legs if none is configured."""


class ReplaceLeg(OneNamespace):
    name: str
    """The old leg: its path, its URL with #NSID, or ram."""
    leg: dict[str, JsonValue]
    """The keys of a [[subsystem.namespace.leg]]."""


@method("target_get_mirrors", Params, "mirrors")
def get_mirrors(administration: Administration, params: Params) -> list[Mirror]:
    """Return the namespaces that are mirrors, with the states of their legs."""
    return administration.server.storage.mirrors()


@method("target_add_leg", AddLeg, "add_leg", changes=True)
async def add(administration: Administration, params: AddLeg) -> bool:
    """Add a leg to a mirror whose legs are all in sync; the data on the new leg are lost.

    Commands of hosts wait while the mirror is opened with it.
    """
    leg = edit.model(LegConfig, params.leg)
    await administration.change(
        lambda config: legs.add_leg(config, params.nqn, params.nsid, leg, params.quorum)
    )
    return True


@method("target_remove_leg", RemoveLeg, "remove_leg", changes=True)
async def remove(administration: Administration, params: RemoveLeg) -> bool:
    """Remove a leg of a mirror whose other legs are all in sync.

    Commands of hosts wait while the mirror is opened without it.
    """
    await administration.change(
        lambda config: legs.remove_leg(config, params.nqn, params.nsid, params.name, params.quorum)
    )
    return True


@method("target_replace_leg", ReplaceLeg, "replace_leg", changes=True)
async def replace(administration: Administration, params: ReplaceLeg) -> bool:
    """Replace a leg of a mirror, lost or not, with a new leg that gets a copy of all data.

    If the new leg is the old one at a different address, only the missing data are copied.
    """
    leg = edit.model(LegConfig, params.leg)
    await administration.change(
        lambda config: legs.replace_leg(config, params.nqn, params.nsid, params.name, leg)
    )
    return True


@method("target_resync_mirror", OneNamespace, "resync_mirror", changes=True)
async def resync(administration: Administration, params: OneNamespace) -> bool:
    """Retry the lost legs of a mirror now; fail with the reason if one cannot be used.

    If a different writer has taken over, take over from it.
    """
    server = administration.server
    legs.find_mirror(server.config, params.nqn, params.nsid)
    subsystem = server.core.subsystems.get(params.nqn)
    namespace = subsystem.namespaces.get(params.nsid) if subsystem is not None else None
    if namespace is None:
        raise EditError(f"namespace {params.nsid} of {params.nqn} is not available now")
    try:
        await server.storage.resync(namespace)
    except OSError as error:
        raise ServerError(f"cannot resynchronise all legs: {error.strerror or error}") from error
    return True
