# SPDX-License-Identifier: BSD-3-Clause
"""Removal of hosts from a subsystem, and access for every host; hosts are added by rpc.keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.rpc.errors import Code
from nvmf.target.change import edit
from nvmf.target.rpc.errors import spdk_says
from nvmf.target.rpc.keys import SubsystemHost
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class AllowAny(Params):
    nqn: str
    allow_any_host: bool


class RemoveHost(SubsystemHost):
    timeout_ms: int | None = None
    """No effect."""


@method("nvmf_subsystem_remove_host", RemoveHost, "remove_host", changes=True)
async def remove(administration: Administration, params: RemoveHost) -> bool:
    """Remove a host from a subsystem, and disconnect it."""
    with spdk_says(Code.INTERNAL_ERROR):
        await administration.change(
            lambda config: edit.remove_host(config, params.nqn, params.host)
        )
    return True


@method("nvmf_subsystem_allow_any_host", AllowAny, "allow_any_host", changes=True)
async def allow_any(administration: Administration, params: AllowAny) -> bool:
    """Allow every host to connect, or only the hosts that were added."""
    with spdk_says(Code.INTERNAL_ERROR):
        await administration.change(
            lambda config: edit.allow_any_host(config, params.nqn, params.allow_any_host)
        )
    return True
