# SPDX-License-Identifier: BSD-3-Clause
"""The target as a whole: what it is, its configuration, and its file read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvmf.target.commands.identify import FIRMWARE
from nvmf.target.rpc.connected import get_controllers
from nvmf.target.rpc.describe import (
    absent_namespaces,
    absent_ports,
    address,
    describe_subsystem,
)
from nvmf.target.rpc.registry import METHODS, Params, method
from nvmf.target.rpc.subsystems import Named

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class GetMethods(Params):
    current: bool = False
    """SPDK's: those alone that can be called now, which are all."""
    include_aliases: bool = True


class GetConfig(Params):
    secrets: bool = False
    """With the keys that stand in it, for who writes it to a file."""


@method("rpc_get_methods", GetMethods)
def get_methods(administration: Administration, params: GetMethods) -> list[str]:
    """The names of all methods."""
    return sorted(METHODS)


@method("spdk_get_version", Params)
def get_version(administration: Administration, params: Params) -> dict[str, Any]:
    """What answers here, where SPDK would say which SPDK it is."""
    return {"version": f"nvmeof-rdma {FIRMWARE}", "fields": {"suffix": ""}}


@method("target_get_tree", Params)
def get_tree(administration: Administration, params: Params) -> dict[str, Any]:
    """Ports, and subsystems with their hosts, namespaces and controllers."""
    server = administration.server
    return {
        "ports": [
            {
                **address(port.listening.address),
                "device": port.listening.device,
                "ana_states": {str(group): state.word for group, state in port.ana.items()},
            }
            for port in server.open_ports
        ]
        + absent_ports(server),
        "subsystems": [
            {
                **describe_subsystem(server, subsystem),
                "absent_namespaces": absent_namespaces(server, subsystem.nqn),
                "controllers": get_controllers(administration, Named(nqn=subsystem.nqn)),
            }
            for subsystem in server.core.subsystems.values()
        ],
    }


@method("target_get_config", GetConfig)
def get_config(administration: Administration, params: GetConfig) -> dict[str, Any]:
    """The configuration in force, the file it was read from, and what was in that file."""
    return administration.described(secrets=params.secrets)


@method("target_reload", Params, changes=True)
async def reload(administration: Administration, params: Params) -> dict[str, Any]:
    """Read the file again and serve what it says, by difference."""
    done = await administration.reload()
    return {"changed": done.sentence, "ignored": done.ignored, "warnings": done.warnings}
