# SPDX-License-Identifier: BSD-3-Clause
"""Descriptions of the target's objects, with the names of SPDK's RPC."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nvmf.check import checked
from nvmf.rpc import results
from nvmf.spec.features import WriteProtection
from nvmf.target.change.presence import coming_namespaces, coming_ports
from nvmf.target.command.engine import Address
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.queue import Queue

if TYPE_CHECKING:
    from nvmf.target.io.injections import Injection
    from nvmf.target.model.controller import Controller
    from nvmf.target.model.subsystem import Subsystem
    from nvmf.target.service.server import Server


def address(where: Address) -> results.Address:
    """Describe a transport address."""
    family = "IPv6" if ":" in where[0] else "IPv4"
    return {"trtype": "RDMA", "adrfam": family, "traddr": where[0], "trsvcid": str(where[1])}


def describe_subsystem(server: Server, subsystem: Subsystem) -> results.Subsystem:
    """Describe a subsystem, its hosts and its namespaces."""
    found: results.Subsystem = {
        "nqn": subsystem.nqn,
        "subtype": "Discovery" if subsystem.discovery else "NVMe",
        "listen_addresses": [address(port.address) for port in server.ports],
        "allow_any_host": subsystem.allow_any_host,
        "hosts": _hosts(server, subsystem),
    }
    if not subsystem.discovery:
        found["serial_number"] = subsystem.serial
        found["model_number"] = subsystem.model
        found["max_namespaces"] = subsystem.max_namespaces
        found["min_cntlid"] = 1
        found["max_cntlid"] = 0xFFEF
        names = _bdev_names(server, subsystem.nqn)
        found["namespaces"] = [
            describe_namespace(subsystem, namespace, names.get(nsid))
            for nsid, namespace in sorted(subsystem.namespaces.items())
        ]
    return found


def _bdev_names(server: Server, nqn: str) -> dict[int, str]:
    """Return the names of bdevs by NSID."""
    config = next((s for s in server.config.subsystems if s.nqn == nqn), None)
    spaces = config.numbered() if config is not None else ()
    return {nsid: n.bdev for nsid, n in spaces if n.bdev is not None}


def _hosts(server: Server, subsystem: Subsystem) -> list[results.Host]:
    """Describe the hosts allowed to connect, with the locations of their keys."""
    found = {nqn: results.Host(nqn=nqn) for nqn in sorted(subsystem.hosts)}
    if subsystem.keys:
        config = next((s for s in server.config.subsystems if s.nqn == subsystem.nqn), None)
        for table in config.host_tables if config is not None else ():
            if (host := found.get(table.nqn)) is None:
                continue
            if (place := table.place("dhchap_key")) is not None:
                host["dhchap_key"] = place
            if (place := table.place("dhchap_ctrl_key")) is not None:
                host["dhchap_ctrlr_key"] = place
    return list(found.values())


def protection_word(state: WriteProtection) -> str:
    """Return the name of a write protection state."""
    return state.name.lower().replace("_", "-")


def describe_namespace(
    subsystem: Subsystem, namespace: Namespace, bdev: str | None
) -> results.Namespace:
    """Describe a namespace; bdev: the name of its storage, by default the path or the kind."""
    store = namespace.store
    mask = subsystem.mask_of(namespace.nsid)
    name = bdev or store.path or store.kind
    lasting = subsystem.lasting.state(namespace.nsid)
    found: results.Namespace = {
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
        found["limits"] = limits(namespace.limits)
    return found


def limits(values: Mapping[str, int]) -> results.Limits:
    """Describe limits, by their names in the configuration."""
    return checked(results.Limits, dict(values), exact=True)


def describe_fault(one: Injection) -> results.Fault:
    """Describe a fault on purpose."""
    until = one.ended if one.ended is not None else asyncio.get_running_loop().time()
    return {
        "id": one.number,
        "fault": one.config.model_dump(mode="json", exclude_defaults=True),
        "summary": one.config.summary(),
        "seconds": round(until - one.began, 3),
        "matched": one.matched,
        "hits": one.hits,
        "ended": one.end if one.ended is not None else None,
    }


def absent_ports(server: Server) -> list[results.Port]:
    """Describe the ports that wait for their devices."""
    return [
        {**address(listen), "device": port.device, "ana_states": {}, "absent": server.away[listen]}
        for listen, port in coming_ports(server.config).items()
        if listen in server.away
    ]


def absent_namespaces(server: Server, nqn: str) -> list[results.AbsentNamespace]:
    """Describe the namespaces that wait for their files or devices."""
    return [
        {"nsid": nsid, "store": n.store, "path": str(path), "absent": server.away[path]}
        for path, places in coming_namespaces(server.config).items()
        for (where, nsid), n in places
        if where == nqn and path in server.away
    ]


def describe_controller(controller: Controller) -> results.Controller:
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


def queue_totals(stats: Mapping[str, int]) -> results.QueueTotals:
    """Return the counters of queues that only increase; a missing one is 0."""
    return {
        "commands": stats.get("commands", 0),
        "errors": stats.get("errors", 0),
        "read_bytes": stats.get("read_bytes", 0),
        "write_bytes": stats.get("write_bytes", 0),
        "malformed": stats.get("malformed", 0),
        "waited_for_buffer": stats.get("waited_for_buffer", 0),
    }


def queue_stats(stats: Mapping[str, int]) -> results.QueueStats:
    """Return the counters of a queue pair (nvmf.engine.Qpair.stats)."""
    return {**queue_totals(stats), "outstanding": stats.get("outstanding", 0)}


def namespace_stats(nqn: str, nsid: int, stats: Mapping[str, int]) -> results.NamedNamespaceStats:
    """Return the counters of a namespace (nvmf.engine.Namespace.stats)."""
    return {
        "nqn": nqn,
        "nsid": nsid,
        "reads": stats.get("reads", 0),
        "writes": stats.get("writes", 0),
        "read_bytes": stats.get("read_bytes", 0),
        "write_bytes": stats.get("write_bytes", 0),
        "errors": stats.get("errors", 0),
        "media_errors": stats.get("media_errors", 0),
        "throttled": stats.get("throttled", 0),
        "flushes": stats.get("flushes", 0),
        "compares": stats.get("compares", 0),
        "verifies": stats.get("verifies", 0),
        "write_zeroes": stats.get("write_zeroes", 0),
        "deallocates": stats.get("deallocates", 0),
        "checked_bytes": stats.get("checked_bytes", 0),
        "copies": stats.get("copies", 0),
        "copied_bytes": stats.get("copied_bytes", 0),
    }


def describe_queue(queue: Queue) -> results.QueuePair:
    """Describe a queue pair, with its counters."""
    assert queue.controller is not None
    return {
        "cntlid": queue.controller.cntlid,
        "qid": queue.qid,
        "state": "active",
        "listen_address": address(queue.local),
        "peer_address": address(queue.peer),
        "entries": queue.sq_size,
        "stats": queue_stats(queue.handle.stats),
    }
