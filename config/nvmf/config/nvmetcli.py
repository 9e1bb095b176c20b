# SPDX-License-Identifier: BSD-3-Clause
"""The file of nvmetcli (JSON, /etc/nvmet/config.json) read into a configuration, and written."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from nvmf.config.loader import ConfigError
from nvmf.config.models import Config, LimitsConfig, NamespaceConfig, SubsystemConfig
from nvmf.config.words import expectation

_ATTRIBUTES = {"allow_any_host", "serial", "model"}
"""Of a subsystem, those that a configuration has."""
_DEFAULTS = {
    "version", "cntlid_min", "cntlid_max", "qid_max", "pi_enable", "ieee_oui", "firmware"
}  # fmt: skip
"""Those that are nvmet's own, or the same for every target: nothing is lost without them."""


def load(text: str, source: str) -> tuple[Config, list[str]]:
    """The configuration in such a file, and a sentence for each thing that it cannot say.

    ConfigError where it is no such file, or what is left of it is no configuration.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError(source, [f"{source}: is not JSON: {error}"]) from None
    if not isinstance(data, dict) or not isinstance(data.get("subsystems"), list):
        said = f"{source}: is no file of nvmetcli: it has no list of subsystems"
        raise ConfigError(source, [said])
    lost: list[str] = []
    try:
        subsystems = [_subsystem(one, lost) for one in data["subsystems"]]
        ports = [_port(one, lost) for one in data.get("ports", [])]
        _check_ports(data, lost)
        _check_hosts(data, lost)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(source, [f"{source}: is no file of nvmetcli: {error!r}"]) from None
    values: dict[str, Any] = {"subsystem": subsystems}
    if found := [port for port in ports if port]:
        values["port"] = found
    try:
        return Config.model_validate(values), lost
    except ValidationError as error:
        raise ConfigError(source, [_said(source, one) for one in error.errors()]) from None


def _said(source: str, detail: Any) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    return f"{source}: {key}: {expectation(detail)}" if key else f"{source}: {expectation(detail)}"


def _subsystem(one: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    nqn, attributes = one["nqn"], one.get("attr", {})
    for name in sorted(attributes.keys() - _ATTRIBUTES - _DEFAULTS):
        lost.append(f"subsystem {nqn}: attr {name} = {attributes[name]} has no counterpart")
    spaces = [_namespace(nqn, space, lost) for space in one.get("namespaces", [])]
    anybody = str(attributes.get("allow_any_host", "0")) == "1"
    values: dict[str, Any] = {"nqn": nqn, "allow_any_host": anybody}
    if not anybody:
        values["hosts"] = one.get("allowed_hosts", [])
    for name in ("serial", "model"):
        if attributes.get(name):
            values[name] = attributes[name]
    if spaces:
        values["max_namespaces"] = max(32, *(space["nsid"] for space in spaces))
        values["namespace"] = spaces
    return values


def _namespace(nqn: str, one: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    nsid, device = int(one["nsid"]), one["device"]
    where = f"namespace {nsid} of {nqn}"
    values: dict[str, Any] = {"nsid": nsid, "store": "file", "path": device["path"]}
    for name in ("uuid", "nguid"):
        if device.get(name) and UUID(device[name]).int:
            values[name] = device[name]
    if not int(one.get("enable", 1)):
        values["enabled"] = False
    group = int(one.get("ana_grpid", one.get("ana", {}).get("grpid", 1)))
    if group != 1:
        if "ana_group" in NamespaceConfig.model_fields:
            values["ana_group"] = group
        else:
            lost.append(f"{where}: ANA group {group} has no counterpart")
    for name in ("buffered_io", "p2pmem", "resv_enable"):
        if str(one.get(name, device.get(name, "0"))) not in ("0", "", "None"):
            lost.append(f"{where}: {name} has no counterpart")
    return values


def _port(one: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    address, name = one["addr"], one.get("portid", "?")
    if address.get("trtype") != "rdma":
        lost.append(f"port {name}: transport {address.get('trtype')} has no counterpart: left out")
        return None
    for group in one.get("ana_groups", []):
        if group.get("ana", {}).get("state", "optimized") != "optimized":
            lost.append(f"port {name}: the state of ANA group {group.get('grpid')} is left out")
    if one.get("referrals"):
        lost.append(f"port {name}: its referrals are left out")
    return {"traddr": address["traddr"], "trsvcid": int(address.get("trsvcid") or 4420)}


def _check_ports(data: dict[str, Any], lost: list[str]) -> None:
    """A port here serves every subsystem."""
    every = {one["nqn"] for one in data["subsystems"]}
    for port in data.get("ports", []):
        missing = sorted(every - set(port.get("subsystems", [])))
        if port["addr"].get("trtype") == "rdma" and missing:
            lost.append(
                f"port {port.get('portid', '?')}: a port serves every subsystem here, and this "
                f"one did not serve {', '.join(missing)}"
            )


def _check_hosts(data: dict[str, Any], lost: list[str]) -> None:
    for host in data.get("hosts", []):
        keys = sorted(name for name in host if name.startswith("dhchap") and host[name])
        if keys:
            lost.append(
                f"host {host['nqn']}: {', '.join(keys)} left out: name its keys in "
                "[[subsystem.host]]"
            )


def dump(config: Config) -> tuple[dict[str, Any], list[str]]:
    """Such a file for a configuration, and a sentence for each thing that it cannot say."""
    lost: list[str] = []
    hosts = sorted({nqn for subsystem in config.subsystems for nqn in subsystem.host_nqns})
    subsystems = [_dump_subsystem(subsystem, lost) for subsystem in config.subsystems]
    ports = [
        {
            "addr": {
                "adrfam": "ipv6" if ":" in port.traddr else "ipv4",
                "traddr": port.traddr,
                "treq": "not specified",
                "trsvcid": str(port.trsvcid),
                "trtype": "rdma",
            },
            "portid": number,
            "referrals": [],
            "subsystems": [subsystem.nqn for subsystem in config.subsystems],
        }
        for number, port in enumerate(config.ports, 1)
    ]
    for port in config.ports:
        if port.device == "iwarp":
            lost.append(f"port {port.traddr}:{port.trsvcid}: the kernel has no embedded device")
        if any(group.state != "optimized" for group in port.ana_groups):
            lost.append(f"port {port.traddr}:{port.trsvcid}: the states of ANA groups are left out")
        if port.hotplug:
            lost.append(f"port {port.traddr}:{port.trsvcid}: hotplug is left out")
    if config.referrals:
        lost.append("referrals are left out")
    if config.target.discovery_nqn is not None:
        lost.append("discovery_nqn is left out")
    if config.target.state_dir is not None:
        lost.append("state_dir is left out: the kernel keeps nothing through a restart")
    if config.mdns.enabled:
        lost.append("the kernel does not announce itself by mDNS")
    if config.metrics.enabled:
        lost.append("the kernel has no metrics endpoint")
    return {
        "hosts": [{"nqn": nqn} for nqn in hosts],
        "ports": ports,
        "subsystems": subsystems,
    }, lost


def _dump_subsystem(config: SubsystemConfig, lost: list[str]) -> dict[str, Any]:
    attributes = {"allow_any_host": str(int(config.allow_any_host)), "model": config.model}
    if config.serial is not None:
        attributes["serial"] = config.serial
    if any(host.authenticates for host in config.host_tables):
        lost.append(f"subsystem {config.nqn}: the keys of its hosts are left out")
    for name in ("mdts", "in_capsule", "max_io_queues", "queue_size", "permanent_write_protect"):
        if getattr(config, name) != type(config).model_fields[name].default:
            lost.append(f"subsystem {config.nqn}: {name} is left out")
    spaces = [_dump_namespace(config.nqn, nsid, one, lost) for nsid, one in config.numbered()]
    return {
        "allowed_hosts": list(config.host_nqns),
        "attr": attributes,
        "namespaces": [space for space in spaces if space],
        "nqn": config.nqn,
    }


def _dump_namespace(
    nqn: str, nsid: int, config: NamespaceConfig, lost: list[str]
) -> dict[str, Any] | None:
    where = f"namespace {nsid} of {nqn}"
    if config.store != "file":
        lost.append(f"{where}: the kernel has no {config.store} store: left out")
        return None
    if config.size is not None:
        lost.append(f"{where}: size is left out: the kernel exports the whole file")
    if config.block_size != 512:
        lost.append(f"{where}: block_size is left out: the kernel takes the device's")
    for name in ("hosts", "read_only", "eui64", "hotplug"):
        if getattr(config, name) not in (None, False):  # hosts = [] says something
            lost.append(f"{where}: {name} is left out")
    if config.limits != LimitsConfig():
        lost.append(f"{where}: limits are left out")
    device = {"path": str(config.path)}
    if config.uuid is not None:
        device["uuid"] = str(config.uuid)
    if config.nguid is not None:
        device["nguid"] = str(UUID(bytes=config.nguid))
    group = getattr(config, "ana_group", None) or 1
    return {"ana_grpid": group, "device": device, "enable": int(config.enabled), "nsid": nsid}
