# SPDX-License-Identifier: BSD-3-Clause
"""Ports, on which the target listens.  SPDK's listeners belong to one subsystem, ports to all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from nvmf.config.base import endpoint
from nvmf.config.models import Config, PortConfig
from nvmf.rpc import results
from nvmf.rpc.errors import Code
from nvmf.rpc.results import OpenedPort
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.change.presence import listen_of
from nvmf.target.rpc.describe import address
from nvmf.target.rpc.errors import spdk_says
from nvmf.target.rpc.registry import Params, method
from nvmf.target.rpc.subsystems import Named, find

if TYPE_CHECKING:
    from nvmf.target.model.subsystem import Subsystem
    from nvmf.target.service.administration import Administration

DEFAULT_SERVICE = "4420"
_NUMBER = re.compile("[0-9]{1,5}")


class ListenAddress(Params):
    trtype: str = "RDMA"
    adrfam: str | None = None
    traddr: str
    trsvcid: str = DEFAULT_SERVICE


class Listener(Params):
    nqn: str
    listen_address: ListenAddress


class AddListener(Listener):
    secure_channel: Literal[False] = False
    """TLS, not available with RDMA; SPDK's clients send this by default."""
    ana_state: str = "optimized"
    """State of the ANA groups of the subsystem on this port."""
    sock_impl: str | None = None
    """No effect."""
    numa_id: int | None = None
    """No effect."""


class AddPort(Params):
    port: dict[str, JsonValue]
    """Keys of [[port]] in a configuration."""


class RemovePort(Params):
    traddr: str
    trsvcid: int


def _port(wanted: ListenAddress) -> PortConfig:
    if wanted.trtype.upper() != "RDMA":
        raise EditError(f"trtype {wanted.trtype}: only RDMA is supported")
    if not _NUMBER.fullmatch(wanted.trsvcid):
        raise EditError(f"trsvcid {wanted.trsvcid[:32]}: expected a number from 0 to 65535")
    values = {"traddr": wanted.traddr, "trsvcid": int(wanted.trsvcid)}
    return edit.model(PortConfig, values)


def _subsystem(administration: Administration, nqn: str) -> Subsystem:
    """Return the subsystem with this NQN; "discovery" is the discovery subsystem, as in SPDK."""
    if nqn in ("discovery", DISCOVERY_NQN):
        return administration.server.core.discovery
    return find(administration, nqn)


@method("nvmf_subsystem_add_listener", AddListener, "add_listener", changes=True)
async def add_listener(administration: Administration, params: AddListener) -> bool:
    """Open a port; succeed if it is already open.

    Every subsystem, and the discovery service, can be reached through every port.
    """
    subsystem = _subsystem(administration, params.nqn)
    made = _port(params.listen_address)
    groups = {subsystem.group_of(nsid) for nsid in subsystem.namespaces} or {1}

    def change(config: Config) -> Config:
        there = any((p.traddr, p.trsvcid) == (made.traddr, made.trsvcid) for p in config.ports)
        config = config if there else edit.add_port(config, made)
        for group in groups if params.ana_state != "optimized" else ():
            config = edit.set_ana(config, made.traddr, made.trsvcid, group, params.ana_state)
        return config

    with spdk_says(Code.INVALID_PARAMS):
        await administration.change(change)
    return True


@method("nvmf_subsystem_remove_listener", Listener, "remove_listener", changes=True)
async def remove_listener(administration: Administration, params: Listener) -> bool:
    """Close a port, unless it serves other subsystems."""
    _subsystem(administration, params.nqn)
    gone = _port(params.listen_address)

    def change(config: Config) -> Config:
        edit.find_port(config, gone.traddr, gone.trsvcid)
        others = [s.nqn for s in config.subsystems if s.nqn != params.nqn]
        if others:
            raise EditError(
                f"port {endpoint(gone.traddr, gone.trsvcid)} also serves other subsystems "
                f"({others[0]}): target_remove_port closes it for all"
            )
        return edit.remove_port(config, gone.traddr, gone.trsvcid)

    await administration.change(change)
    return True


@method("nvmf_subsystem_get_listeners", Named, "listeners")
def get_listeners(administration: Administration, params: Named) -> list[results.Listener]:
    """Return the addresses of a subsystem."""
    _subsystem(administration, params.nqn)
    return [{"address": address(port.address)} for port in administration.server.ports]


@method("target_add_port", AddPort, "add_port", changes=True)
async def add(administration: Administration, params: AddPort) -> OpenedPort:
    """Open a port; return its address. If its device is missing, absent gives the reason."""
    made = edit.model(PortConfig, params.port)
    await administration.change(lambda config: edit.add_port(config, made))
    opened = await administration.server.pin_port(made)
    if opened is not None:
        where = address(opened.listening.address)
        return OpenedPort(
            trtype=where["trtype"],
            adrfam=where["adrfam"],
            traddr=where["traddr"],
            trsvcid=where["trsvcid"],
        )
    listen = listen_of(made)
    absent = administration.server.away.get(listen, "its device was removed again")
    return {**address(listen), "absent": absent}


@method("target_remove_port", RemovePort, "remove_port", changes=True)
async def remove(administration: Administration, params: RemovePort) -> bool:
    """Close a port, and disconnect its hosts."""
    wanted = administration.configured_port(params.traddr, params.trsvcid)
    await administration.change(
        lambda config: edit.remove_port(config, wanted.traddr, wanted.trsvcid)
    )
    return True
