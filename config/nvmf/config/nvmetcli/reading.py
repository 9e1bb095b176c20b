# SPDX-License-Identifier: BSD-3-Clause
"""Converts nvmetcli's file to a configuration.

Most members may be missing, as in the files of older versions and kernels.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nvmf.config.advice import names_advice
from nvmf.config.loader import ConfigError
from nvmf.config.models import Config, PortConfig, ReferralConfig
from nvmf.config.words import expectation
from nvmf.spec.nqn import DISCOVERY_NQN

Object: TypeAlias = "dict[str, Any]"
"""A JSON object of the file or of the result.  The file is not checked beforehand: load() turns the
KeyError, TypeError or ValueError of an unexpected value into a message."""

_ATTRIBUTES = {"allow_any_host", "serial", "model"}
"""Attributes of a subsystem that a configuration has."""
_DEFAULTS = {
    "version", "cntlid_min", "cntlid_max", "qid_max", "pi_enable", "ieee_oui", "firmware"
}  # fmt: skip
"""Attributes specific to nvmet, or equal for every target: dropped without a message."""
_WELL_KNOWN = {"rdma": 4420, "tcp": 8009}
"""Default ports of referrals: IANA's nvme and nvme-disc."""
_OF_A_PORT: dict[str, dict[str, set[str]]] = {
    "addr": {"treq": {"not specified", "not required"}, "tsas": {"connected", "none"}},
    "param": {
        "inline_data_size": {"-1", "4096"},
        "max_queue_size": {"-1", "128"},
        "pi_enable": {"0"},
    },
}
"""Further attributes of a port, by group, with the values that are dropped without a message."""


def load(text: str, source: str) -> tuple[Config, list[str]]:
    """Return the configuration in such a file, and a message for each setting that is lost.

    Raise ConfigError if it is not such a file, or the resulting configuration is invalid.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(source, [f"{source}: is not JSON: {error}"]) from None
    if not isinstance(data, dict) or not isinstance(data.get("subsystems"), list):
        said = f"{source}: is not a file of nvmetcli: it has no list of subsystems"
        raise ConfigError(source, [said])
    lost: list[str] = []
    try:
        values = _values(data, lost)
    except KeyError as error:
        raise ConfigError(
            source, [f"{source}: is not a file of nvmetcli: {error} is missing"]
        ) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise ConfigError(source, [f"{source}: is not a file of nvmetcli: {error}"]) from None
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(source, [_said(source, one) for one in error.errors()]) from None
    return config, lost + names_advice(config)


def _values(data: Object, lost: list[str]) -> Object:
    """Return the tables of the configuration."""
    subsystems = [_subsystem(one, lost) for one in data["subsystems"]]
    groups = {space.get("ana_group", 1) for one in subsystems for space in one.get("namespace", ())}
    found = data.get("ports", [])
    ports = [one for one in found if _is_rdma(one, lost)]
    values: Object = {"subsystem": subsystems}
    if ports:
        values["port"] = [_port(one, groups, lost) for one in ports]
        if referrals := _referrals(ports, lost):
            values["referral"] = referrals
    else:
        own = PortConfig()
        lost.append(f"there is no RDMA port: using the default, {own.traddr} port {own.trsvcid}")
    nqn = data.get("discovery", {}).get("nqn")
    if nqn and nqn != DISCOVERY_NQN:
        values["target"] = {"discovery_nqn": nqn}
    _check_subsystems(ports, data["subsystems"], lost)
    _check_hosts(data, lost)
    return values


def _said(source: str, detail: ErrorDetails) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    return f"{source}: {key}: {expectation(detail)}" if key else f"{source}: {expectation(detail)}"


def _subsystem(one: Object, lost: list[str]) -> Object:
    nqn, attributes = one["nqn"], one.get("attr", {})
    for name in sorted(attributes.keys() - _ATTRIBUTES - _DEFAULTS):
        lost.append(f"subsystem {nqn}: attr {name} = {attributes[name]} has no counterpart")
    if any(int(passed.get("enable", 0)) for passed in one.get("passthru", [])):
        lost.append(f"subsystem {nqn}: passthru is not supported: omitted")
    spaces = [
        _namespace(nqn, space, lost)
        for space in one.get("namespaces", [])
        if _has_path(nqn, space, lost)
    ]
    anybody = str(attributes.get("allow_any_host", "0")) == "1"
    values: Object = {"nqn": nqn, "allow_any_host": anybody}
    if not anybody:
        values["hosts"] = one.get("allowed_hosts", [])
    for name in ("serial", "model"):
        if attributes.get(name):
            values[name] = attributes[name]
    if spaces:
        values["max_namespaces"] = max(32, *(space["nsid"] for space in spaces))
        values["namespace"] = spaces
    return values


def _has_path(nqn: str, one: Object, lost: list[str]) -> bool:
    """Return whether the namespace has a path; the kernel prints (null) if it was never set."""
    if one.get("device", {}).get("path") not in (None, "", "(null)"):
        return True
    lost.append(f"namespace {one['nsid']} of {nqn}: it has no device path: omitted")
    return False


def _namespace(nqn: str, one: Object, lost: list[str]) -> Object:
    nsid, device = int(one["nsid"]), one["device"]
    where = f"namespace {nsid} of {nqn}"
    values: Object = {"nsid": nsid, "store": "file", "path": device["path"]}
    for name in ("uuid", "nguid"):
        if device.get(name) and UUID(device[name]).int:
            values[name] = device[name]
    if not int(one.get("enable", 1)):
        values["enabled"] = False
    # Kernels without ANA do not have this attribute; the file has 0 or nothing then.
    group = int(one.get("ana_grpid") or one.get("ana", {}).get("grpid") or 1)
    if group != 1:
        values["ana_group"] = group
    for name in ("buffered_io", "p2pmem"):
        if str(one.get(name, device.get(name, "0"))) not in ("0", "", "None"):
            lost.append(f"{where}: {name} has no counterpart")
    return values


def _is_rdma(one: Object, lost: list[str]) -> bool:
    trtype = one["addr"].get("trtype")
    if trtype == "rdma":
        return True
    lost.append(f"{_named(one)}: transport {trtype} has no counterpart: omitted")
    return False


def _named(port: Object) -> str:
    return f"port {port.get('portid', '?')}"


def _port(one: Object, groups: set[int], lost: list[str]) -> Object:
    """Convert a port; groups: the ANA groups that have a namespace."""
    for kind, known in _OF_A_PORT.items():
        for name, harmless in known.items():
            value = str(one.get(kind, {}).get(name) or "")
            if value and value not in harmless:
                lost.append(f"{_named(one)}: {kind} {name} = {value} has no counterpart")
    address = one["addr"]
    values = {"traddr": address["traddr"], "trsvcid": int(address.get("trsvcid") or 4420)}
    states = {1: "optimized", **dict.fromkeys(groups - {1}, "inaccessible")}
    for group in one.get("ana_groups", []):
        states[int(group["grpid"])] = group.get("ana", {}).get("state", "optimized")
    said = [
        {"id": n, "state": state} for n, state in sorted(states.items()) if state != "optimized"
    ]
    if said:
        values["ana_group"] = said
    return values


def _referrals(ports: list[Object], lost: list[str]) -> list[Object]:
    """Return the referrals of all ports; here every port reports all of them."""
    found: dict[tuple[str, ...], tuple[Object, list[str]]] = {}
    for port in ports:
        for one in port.get("referrals", []):
            where = f"{_named(port)}: referral {one.get('name', '?')}"
            if not int(one.get("enable", 0)):
                lost.append(f"{where} is not enabled: omitted")
                continue
            address = one["addr"]
            values = {name: address.get(name, "") for name in ("trtype", "traddr")}
            try:
                values["trsvcid"] = int(address.get("trsvcid") or _WELL_KNOWN[values["trtype"]])
                ReferralConfig.model_validate(values)
            except (KeyError, ValueError):
                place = " ".join(str(address.get(name)) for name in ("trtype", "traddr", "trsvcid"))
                lost.append(f"{where}: hosts cannot be referred to {place}: omitted")
                continue
            found.setdefault(tuple(map(str, values.values())), (values, []))[1].append(_named(port))
    for values, there in found.values():
        others = [name for name in map(_named, ports) if name not in there]
        if others:
            place = f"{values['traddr']}:{values['trsvcid']}"
            lost.append(
                f"referral to {place}: every port reports it here; {', '.join(others)} did not"
            )
    return [values for values, _ in found.values()]


def _check_subsystems(ports: list[Object], subsystems: list[Object], lost: list[str]) -> None:
    """Report ports that did not serve every subsystem; here every port does."""
    every = {one["nqn"] for one in subsystems}
    for port in ports:
        missing = sorted(every - set(port.get("subsystems", [])))
        if missing:
            lost.append(
                f"{_named(port)}: every port serves all subsystems here; this one did not serve "
                f"{', '.join(missing)}"
            )


def _check_hosts(data: Object, lost: list[str]) -> None:
    for host in data.get("hosts", []):
        keys = sorted(name for name in host if name.startswith("dhchap") and host[name])
        if keys:
            lost.append(
                f"host {host['nqn']}: {', '.join(keys)} omitted: set its keys in [[subsystem.host]]"
            )
