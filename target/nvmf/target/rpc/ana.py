# SPDX-License-Identifier: BSD-3-Clause
"""Asymmetric Namespace Access: states of ANA groups on ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.config.models import Config
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.ports import ListenAddress
from nvmf.target.rpc.registry import Params, method
from nvmf.target.rpc.subsystems import find

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class SetAna(Params):
    traddr: str
    trsvcid: int
    group: int = 1
    state: str


class ListenerState(Params):
    nqn: str
    listen_address: ListenAddress
    ana_state: str
    anagrpid: int | None = None
    """If left out: every group that contains namespaces of the subsystem."""


@method("target_set_ana", SetAna, "set_ana", changes=True)
async def set_state(administration: Administration, params: SetAna) -> bool:
    """Set the ANA state of a group on a port, and notify the hosts."""
    port = administration.configured_port(params.traddr, params.trsvcid)
    await administration.change(
        lambda config: edit.set_ana(config, port.traddr, port.trsvcid, params.group, params.state)
    )
    return True


@method("nvmf_subsystem_listener_set_ana_state", ListenerState, "set_listener_ana", changes=True)
async def set_listener(administration: Administration, params: ListenerState) -> bool:
    """Set the ANA state of a group on a port, for all subsystems (SPDK's method)."""
    subsystem = find(administration, params.nqn)
    if not params.listen_address.trsvcid.isdecimal():
        raise EditError(f"trsvcid {params.listen_address.trsvcid}: expected a number")
    port = administration.configured_port(
        params.listen_address.traddr, int(params.listen_address.trsvcid)
    )
    groups = {subsystem.group_of(nsid) for nsid in subsystem.namespaces}
    wanted = sorted(groups) if params.anagrpid is None else [params.anagrpid]
    await administration.change(
        lambda config: _all(config, port.traddr, port.trsvcid, wanted, params.ana_state)
    )
    return True


def _all(config: Config, traddr: str, trsvcid: int, groups: list[int], state: str) -> Config:
    for group in groups:
        config = edit.set_ana(config, traddr, trsvcid, group, state)
    return config
