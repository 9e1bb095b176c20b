# SPDX-License-Identifier: BSD-3-Clause
"""Descriptions of the target's objects, with the names of SPDK's RPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvmf.spec.features import WriteProtection
from nvmf.target.change.presence import coming_namespaces, coming_ports
from nvmf.target.command.engine import Address
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.queue import Queue

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller
    from nvmf.target.model.subsystem import Subsystem
    from nvmf.target.service.server import Server


def address(where: Address) -> dict[str, str]:
    """Describe a transport address."""
    family = "IPv6" if ":" in where[0] else "IPv4"
    return {"trtype": "RDMA", "adrfam": family, "traddr": where[0], "trsvcid": str(where[1])}


def describe_subsystem(server: Server, subsystem: Subsystem) -> dict[str, Any]:
    """Describe a subsystem, its hosts and its namespaces."""
    found: dict[str, Any] = {
        "nqn": subsystem.nqn,
        "subtype": "Discovery" if subsystem.discovery else "NVMe",
        "listen_addresses": [address(port.address) for port in server.ports],
        "allow_any_host": subsystem.allow_any_host,
        "hosts": _hosts(server, subsystem),
    }
    if not subsystem.discovery:
        found |= {
            "serial_number": subsystem.serial,
            "model_number": subsystem.model,
            "max_namespaces": subsystem.max_namespaces,
            "min_cntlid": 1,
            "max_cntlid": 0xFFEF,
            "namespaces": [
                describe_namespace(subsystem, namespace)
                for _, namespace in sorted(subsystem.namespaces.items())
            ],
        }
    return found


def _hosts(server: Server, subsystem: Subsystem) -> list[dict[str, str]]:
    """Describe the hosts allowed to connect, with the locations of their keys."""
    found = {nqn: {"nqn": nqn} for nqn in sorted(subsystem.hosts)}
    if subsystem.keys:
        config = next((s for s in server.config.subsystems if s.nqn == subsystem.nqn), None)
        for table in config.host_tables if config is not None else ():
            for name, key in (
                ("dhchap_key", "dhchap_key"),
                ("dhchap_ctrlr_key", "dhchap_ctrl_key"),
            ):
                place = table.place(key)
                if place is not None and table.nqn in found:
                    found[table.nqn][name] = place
    return list(found.values())


def protection_word(state: WriteProtection) -> str:
    """Return the name of a write protection state."""
    return state.name.lower().replace("_", "-")


def describe_namespace(subsystem: Subsystem, namespace: Namespace) -> dict[str, Any]:
    """Describe a namespace; SPDK's bdev_name is the path or the kind of its store."""
    store: Any = namespace.store
    mask = subsystem.mask_of(namespace.nsid)
    name = store.path or store.kind
    lasting = subsystem.lasting.state(namespace.nsid)
    found: dict[str, Any] = {
        "nsid": namespace.nsid,
        "bdev_name": name,
        "name": name,
        "nguid": namespace.identity.nguid.hex().upper(),
        "eui64": namespace.identity.eui64.hex().upper(),
        "uuid": str(namespace.identity.uuid),
        "anagrpid": subsystem.group_of(namespace.nsid),
        "store": store.kind,
        "path": store.path,
        "size": store.size,
        "block_size": store.block_size,
        "read_only": store.read_only,
        "write_protection": protection_word(lasting.protection),
        "invalid_blocks": sum(blocks for _, blocks in lasting.invalid),
    }
    if mask is not None:
        found["hosts"] = sorted(mask)
    if namespace.limits:
        found["limits"] = dict(namespace.limits)
    return found


def absent_ports(server: Server) -> list[dict[str, Any]]:
    """Describe the ports that wait for their devices."""
    return [
        {**address(listen), "device": port.device, "ana_states": {}, "absent": server.away[listen]}
        for listen, port in coming_ports(server.config).items()
        if listen in server.away
    ]


def absent_namespaces(server: Server, nqn: str) -> list[dict[str, Any]]:
    """Describe the namespaces that wait for their files or devices."""
    return [
        {"nsid": nsid, "store": n.store, "path": str(path), "absent": server.away[path]}
        for path, places in coming_namespaces(server.config).items()
        for (where, nsid), n in places
        if where == nqn and path in server.away
    ]


def describe_controller(controller: Controller) -> dict[str, Any]:
    """Describe a controller."""
    return {
        "cntlid": controller.cntlid,
        "hostnqn": controller.hostnqn,
        "hostid": controller.hostid.hex(),
        "num_io_qpairs": len(controller.io_queues),
        "keep_alive_ms": controller.kato_ms,
        "ready": controller.ready,
        "peer_address": address(controller.admin.peer),
    }


def describe_queue(queue: Queue) -> dict[str, Any]:
    """Describe a queue pair, with its counters."""
    assert queue.controller is not None
    return {
        "cntlid": queue.controller.cntlid,
        "qid": queue.qid,
        "state": "active",
        "listen_address": address(queue.local),
        "peer_address": address(queue.peer),
        "entries": queue.sq_size,
        "stats": dict(queue.handle.stats),
    }
