# SPDX-License-Identifier: BSD-3-Clause
"""The target as a whole: methods, version, tree, configuration and reload."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nvmf.rpc.results import CurrentConfig, Port, Reloaded, Tree, Version
from nvmf.target.commands.identify import FIRMWARE
from nvmf.target.rpc.connected import get_controllers
from nvmf.target.rpc.describe import (
    absent_namespaces,
    absent_ports,
    address,
    describe_fault,
    describe_subsystem,
)
from nvmf.target.rpc.framework import START_INIT
from nvmf.target.rpc.registry import METHODS, Params, method
from nvmf.target.rpc.subsystems import Named

if TYPE_CHECKING:
    from nvmf.target.io.ports import OpenPort
    from nvmf.target.service.administration import Administration


class GetMethods(Params):
    current: bool = False
    """Only methods that can be called now: all but framework_start_init."""
    include_aliases: bool = True


class GetConfig(Params):
    secrets: bool = False
    """Whether to include keys, to save the configuration to a file."""


class Reload(Params):
    revision: int | None = None
    """Revision of the configuration that was written to the file, as in target_get_config: if the
    target has a newer one, it keeps that, and only notes that it knows the file."""


@method("rpc_get_methods", GetMethods, "methods")
def get_methods(administration: Administration, params: GetMethods) -> list[str]:
    """Return the names of all methods."""
    return sorted(name for name in METHODS if not (params.current and name == START_INIT))


@method("spdk_get_version", Params, "version")
def get_version(administration: Administration, params: Params) -> Version:
    """Return the version of this software, in the form of SPDK's."""
    major, minor, patch = [*map(int, re.findall(r"\d+", FIRMWARE)), 0, 0, 0][:3]
    return {
        "version": f"nvmeof-rdma {FIRMWARE}",
        "fields": {"major": major, "minor": minor, "patch": patch, "suffix": ""},
    }


@method("target_get_tree", Params, "tree")
def get_tree(administration: Administration, params: Params) -> Tree:
    """Return ports, and subsystems with their hosts, namespaces and controllers."""
    server = administration.server
    return {
        "ports": [*map(_port, server.open_ports), *absent_ports(server)],
        "subsystems": [
            {
                **describe_subsystem(server, subsystem),
                "absent_namespaces": absent_namespaces(server, subsystem.nqn),
                "controllers": get_controllers(administration, Named(nqn=subsystem.nqn)),
                "mirrors": [one for one in server.storage.mirrors() if one["nqn"] == subsystem.nqn],
                "memory": [one for one in server.memory.describe() if one["nqn"] == subsystem.nqn],
            }
            for subsystem in server.core.subsystems.values()
        ],
        "faults": [describe_fault(one) for one in server.injections.active()],
    }


def _port(port: OpenPort) -> Port:
    where = address(port.listening.address)
    return Port(
        trtype=where["trtype"],
        adrfam=where["adrfam"],
        traddr=where["traddr"],
        trsvcid=where["trsvcid"],
        device=port.listening.device,
        ana_states={str(group): state.word for group, state in port.ana.items()},
    )


@method("target_get_config", GetConfig, "config")
def get_config(administration: Administration, params: GetConfig) -> CurrentConfig:
    """Return the current configuration, its file, and the checksum of the file as read."""
    return administration.described(secrets=params.secrets)


@method("target_reload", Reload, "reload", changes=True)
async def reload(administration: Administration, params: Reload) -> Reloaded:
    """Read the configuration file again, and apply the differences."""
    done = await administration.reload(params.revision)
    return {"changed": done.sentence, "ignored": done.ignored, "warnings": done.warnings}
