# SPDX-License-Identifier: BSD-3-Clause
"""Converts a configuration to nvmetcli's file."""

from __future__ import annotations

from typing import Any, TypedDict
from uuid import UUID

from nvmf.config.base import endpoint
from nvmf.config.limits import LimitsConfig
from nvmf.config.models import (
    Config,
    NamespaceConfig,
    PortConfig,
    ReferralConfig,
    SubsystemConfig,
)
from nvmf.spec.nqn import DISCOVERY_NQN

_MOST_NSID = 8192
"""The highest NSID that nvmetcli accepts."""


class _Namespace(TypedDict):
    """A namespace in the file."""

    ana_grpid: int
    device: dict[str, str]
    enable: int
    nsid: int


class _Subsystem(TypedDict):
    """A subsystem in the file."""

    allowed_hosts: list[str]
    attr: dict[str, str]
    namespaces: list[_Namespace]
    nqn: str


def dump(config: Config) -> tuple[dict[str, Any], list[str]]:
    """Return such a file for a configuration, and a message for each setting that is lost."""
    lost: list[str] = []
    hosts = sorted({nqn for subsystem in config.subsystems for nqn in subsystem.host_nqns})
    subsystems = [_subsystem(subsystem, lost) for subsystem in config.subsystems]
    referrals = [_referral(n, one, lost) for n, one in enumerate(config.referrals, 1)]
    groups = {space["ana_grpid"] for one in subsystems for space in one["namespaces"]}
    ports = [
        {
            "addr": _address("rdma", port.traddr, port.trsvcid),
            "ana_groups": _groups(port, groups),
            "portid": number,
            "referrals": referrals,
            "subsystems": [subsystem.nqn for subsystem in config.subsystems],
        }
        for number, port in enumerate(config.ports, 1)
    ]
    for port in config.ports:
        if port.device in ("iwarp", "roce"):
            lost.append(
                f"port {endpoint(port.traddr, port.trsvcid)}: the kernel has no embedded devices"
            )
        if port.hotplug:
            lost.append(f"port {endpoint(port.traddr, port.trsvcid)}: hotplug is omitted")
        if not port.trsvcid:
            lost.append(f"port {port.traddr}: the kernel does not select a free port: set trsvcid")
    lost += [f"bdev {one.name} is omitted: it is not a namespace" for one in config.bdevs]
    if config.target.discovery_nqn is not None:
        lost.append("discovery_nqn is omitted: nvmetcli does not set it")
    if config.target.state_dir is not None:
        lost.append("state_dir is omitted: the kernel's target keeps no state across restarts")
    if config.mdns.enabled:
        lost.append("the kernel does not announce itself by mDNS")
    if config.metrics.enabled:
        lost.append("the kernel has no metrics endpoint")
    return {
        "hosts": [{"nqn": nqn} for nqn in hosts],
        "ports": ports,
        "subsystems": subsystems,
    }, lost


def _address(trtype: str, traddr: str, trsvcid: int) -> dict[str, str]:
    return {
        "adrfam": "ipv6" if ":" in traddr else "ipv4",
        "traddr": traddr,
        "treq": "not specified",
        "trsvcid": str(trsvcid),
        "trtype": trtype,
    }


def _groups(port: PortConfig, used: set[int]) -> list[dict[str, object]]:
    """Return all groups with a namespace: the kernel treats unlisted ones as inaccessible."""
    states = {1: "optimized", **dict.fromkeys(used, "optimized")}
    states.update((group.id, group.state) for group in port.ana_groups)
    return [{"ana": {"state": state}, "grpid": group} for group, state in sorted(states.items())]


def _referral(number: int, config: ReferralConfig, lost: list[str]) -> dict[str, object]:
    if config.nqn != DISCOVERY_NQN:
        where = endpoint(config.traddr, config.trsvcid)
        lost.append(f"referral {where}: nqn is omitted: the kernel refers to the well-known NQN")
    address = _address(config.trtype, config.traddr, config.trsvcid)
    return {"addr": address, "enable": 1, "name": str(number)}


def _subsystem(config: SubsystemConfig, lost: list[str]) -> _Subsystem:
    attributes = {"allow_any_host": str(int(config.allow_any_host)), "model": config.model}
    if config.serial is not None:
        attributes["serial"] = config.serial
    if any(host.authenticates for host in config.host_tables):
        lost.append(f"subsystem {config.nqn}: the keys of its hosts are omitted")
    for name in ("mdts", "in_capsule", "max_io_queues", "queue_size", "permanent_write_protect"):
        if getattr(config, name) != type(config).model_fields[name].default:
            lost.append(f"subsystem {config.nqn}: {name} is omitted")
    spaces = [_namespace(config.nqn, nsid, one, lost) for nsid, one in config.numbered()]
    return {
        "allowed_hosts": list(config.host_nqns),
        "attr": attributes,
        "namespaces": [space for space in spaces if space],
        "nqn": config.nqn,
    }


def _namespace(nqn: str, nsid: int, config: NamespaceConfig, lost: list[str]) -> _Namespace | None:
    where = f"namespace {nsid} of {nqn}"
    if config.store != "file":
        lost.append(f"{where}: the kernel has no {config.store} store: omitted")
        return None
    if nsid > _MOST_NSID:
        lost.append(f"{where}: nvmetcli accepts NSIDs up to {_MOST_NSID}: omitted")
        return None
    if config.size is not None:
        lost.append(f"{where}: size is omitted: the kernel exports the whole file")
    if config.block_size != 512:
        lost.append(f"{where}: block_size is omitted: the kernel uses that of the device")
    for name in ("hosts", "read_only", "eui64", "hotplug"):
        if getattr(config, name) not in (None, False):  # hosts = [] is a setting, too
            lost.append(f"{where}: {name} is omitted")
    if config.limits != LimitsConfig():
        lost.append(f"{where}: limits are omitted")
    device = {"path": str(config.path)}
    if config.uuid is not None:
        device["uuid"] = str(config.uuid)
    if config.nguid is not None:
        device["nguid"] = str(UUID(bytes=config.nguid))
    enable = int(config.enabled)
    return {"ana_grpid": config.ana_group, "device": device, "enable": enable, "nsid": nsid}
