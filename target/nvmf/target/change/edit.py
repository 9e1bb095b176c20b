# SPDX-License-Identifier: BSD-3-Clause
"""Changes to a configuration: each takes one and returns another, validated as a whole.

Nothing happens to the target here.  EditError says what stands against a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic import ValidationError

from nvmf.config.base import Loc, endpoint
from nvmf.config.hosts import HostConfig
from nvmf.config.models import (
    AnaGroupConfig,
    Config,
    NamespaceConfig,
    PortConfig,
    ReferralConfig,
    SubsystemConfig,
)
from nvmf.config.words import expectation, place_of

_FAULTS_MOST = 100
"""Wrong values beyond which none is named: to describe each takes time, and hosts have to wait."""
_TOLD_MOST = 8
Edit: TypeAlias = Callable[[Config], Config]


class EditError(Exception):
    """A change cannot be made: a sentence names what it conflicts with, or what is not there."""


class NoSuchSubsystem(EditError):
    """What it is about is not there."""


def model(kind: type[Any], values: dict[str, Any]) -> Any:
    """A table of the configuration from values; EditError says which key is wrong, and why."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise EditError(_said(error, place_of(kind))) from None


def faults(error: ValidationError) -> list[Any]:
    """The first that a person is told of; EditError where there are very many."""
    if error.error_count() > _FAULTS_MOST:
        raise EditError(f"{error.error_count()} values are wrong, too many to name")
    return list(error.errors(include_url=False)[:_TOLD_MOST])


def _said(error: ValidationError, place: Loc) -> str:
    said = []
    for detail in faults(error):
        key = ".".join(str(part) for part in detail["loc"])
        words = expectation(detail, place)
        said.append(f"{key}: {words}" if key else words)
    return "; ".join(said)


def _with(table: Any, **values: Any) -> Any:
    """The same table with other values, validated."""
    known = {name: getattr(table, name) for name in type(table).model_fields}
    return model(type(table), known | values)


def find(config: Config, nqn: str) -> SubsystemConfig:
    """The subsystem of this name."""
    for subsystem in config.subsystems:
        if subsystem.nqn == nqn:
            return subsystem
    raise NoSuchSubsystem(f"there is no subsystem {nqn}")


def find_namespace(config: Config, nqn: str, nsid: int) -> NamespaceConfig:
    """The namespace of this number, served or not."""
    for number, namespace in find(config, nqn).numbered():
        if number == nsid:
            return namespace
    raise EditError(f"there is no namespace {nsid} in {nqn}")


def _put(config: Config, nqn: str, **values: Any) -> Config:
    """Other values of a subsystem."""
    changed = _with(find(config, nqn), **values)
    return _config(config, tuple(changed if s.nqn == nqn else s for s in config.subsystems))


def _config(config: Config, subsystems: tuple[SubsystemConfig, ...]) -> Config:
    changed: Config = _with(config, subsystems=subsystems)
    return changed


def _pinned(subsystem: SubsystemConfig) -> list[NamespaceConfig]:
    """Namespaces with the numbers that they have, so that others do not shift them."""
    return [
        namespace if namespace.nsid is not None else _with(namespace, nsid=nsid)
        for nsid, namespace in subsystem.numbered()
    ]


# ---- subsystems ----


def add_subsystem(config: Config, subsystem: SubsystemConfig) -> Config:
    """A subsystem more."""
    if any(s.nqn == subsystem.nqn for s in config.subsystems):
        raise EditError(f"there is a subsystem {subsystem.nqn} already")
    return _config(config, (*config.subsystems, subsystem))


def remove_subsystem(config: Config, nqn: str) -> Config:
    """A subsystem less, with its namespaces."""
    find(config, nqn)
    return _config(config, tuple(s for s in config.subsystems if s.nqn != nqn))


# ---- namespaces ----


def add_namespace(config: Config, nqn: str, namespace: NamespaceConfig) -> tuple[Config, int]:
    """A namespace more, and its NSID: the lowest free one where it has none."""
    subsystem = find(config, nqn)
    spaces = _pinned(subsystem)
    taken = {n.nsid for n in spaces}
    nsid = namespace.nsid
    if nsid is None:
        free = (n for n in range(1, subsystem.max_namespaces + 1) if n not in taken)
        nsid = next(free, None)
        if nsid is None:
            raise EditError(
                f"{nqn} has all of its {subsystem.max_namespaces} namespaces (max_namespaces)"
            )
    if nsid in taken:
        raise EditError(f"there is a namespace {nsid} in {nqn} already")
    if nsid > subsystem.max_namespaces:
        raise EditError(
            f"nsid {nsid} is above max_namespaces = {subsystem.max_namespaces} of {nqn}"
        )
    _check_path(config, namespace)
    spaces.append(_with(namespace, nsid=nsid))
    return _put(config, nqn, namespaces=tuple(sorted(spaces, key=lambda n: n.nsid or 0))), nsid


def _check_path(config: Config, namespace: NamespaceConfig, but: tuple[str, int] = ("", 0)) -> None:
    """One namespace writes a file at a time; but is the one that is about to let go of it."""
    if namespace.path is None or not namespace.enabled:
        return
    for subsystem in config.subsystems:
        for nsid, other in subsystem.numbered():
            same = other.path == namespace.path and other.enabled and (subsystem.nqn, nsid) != but
            if same and not (other.read_only and namespace.read_only):
                raise EditError(
                    f"{namespace.path} is namespace {nsid} of {subsystem.nqn} already: one "
                    "namespace may write it, or many read it"
                )


def remove_namespace(config: Config, nqn: str, nsid: int) -> Config:
    """A namespace less."""
    find_namespace(config, nqn, nsid)
    kept = tuple(n for n in _pinned(find(config, nqn)) if n.nsid != nsid)
    return _put(config, nqn, namespaces=kept)


def change_namespace(config: Config, nqn: str, nsid: int, **values: Any) -> Config:
    """Other values of a namespace."""
    find_namespace(config, nqn, nsid)
    spaces = _pinned(find(config, nqn))
    place = next(i for i, n in enumerate(spaces) if n.nsid == nsid)
    spaces[place] = _with(spaces[place], **values)
    _check_path(config, spaces[place], (nqn, nsid))
    return _put(config, nqn, namespaces=tuple(spaces))


def show_namespace(config: Config, nqn: str, nsid: int, host: str) -> Config:
    """A masked namespace is for one host more."""
    hosts = find_namespace(config, nqn, nsid).hosts
    if hosts is None:
        raise EditError(f"every host sees namespace {nsid} of {nqn}: it is not masked")
    if host in hosts:
        raise EditError(f"{host} sees namespace {nsid} of {nqn} already")
    return change_namespace(config, nqn, nsid, hosts=(*hosts, host))


def hide_namespace(config: Config, nqn: str, nsid: int, host: str) -> Config:
    """A masked namespace is for one host less."""
    hosts = find_namespace(config, nqn, nsid).hosts
    if hosts is None:
        raise EditError(f"every host sees namespace {nsid} of {nqn}: it is not masked")
    if host not in hosts:
        raise EditError(f"{host} does not see namespace {nsid} of {nqn}")
    return change_namespace(config, nqn, nsid, hosts=tuple(h for h in hosts if h != host))


# ---- hosts ----

_ANY_HOST = (
    "{nqn} lets every host connect: allow_any_host is true. A file with hosts in its place, and "
    "target reload, spares the hosts that it names; target host remove --any disconnects all"
)


def allow_host(config: Config, nqn: str, host: str, table: HostConfig | None = None) -> Config:
    """One host more may connect; table: its keys, where it has to authenticate."""
    subsystem = find(config, nqn)
    if subsystem.allow_any_host:
        raise EditError(_ANY_HOST.format(nqn=nqn))
    if host in subsystem.host_nqns:
        raise EditError(f"{host} may connect to {nqn} already")
    if table is not None:
        return _put(config, nqn, host_tables=(*subsystem.host_tables, table))
    return _put(config, nqn, hosts=(*subsystem.hosts, host))


def set_keys(config: Config, nqn: str, host: str, values: dict[str, Any]) -> Config:
    """Other keys of a host that may connect, or none; hashes and groups stay as they are.

    values: those keys of its table that say where they are, and what else is to be different.
    """
    subsystem = find(config, nqn)
    if host not in subsystem.host_nqns:
        raise EditError(f"{host} is not one of the hosts of {nqn}: allow it first")
    old = next((t for t in subsystem.host_tables if t.nqn == host), None)
    made = _with(old or HostConfig(nqn=host), **dict.fromkeys(HostConfig.KEYS) | values)
    return _put(
        config,
        nqn,
        hosts=tuple(h for h in subsystem.hosts if h != host),
        host_tables=tuple(made if t is old else t for t in subsystem.host_tables)
        if old is not None
        else (*subsystem.host_tables, made),
    )


def remove_host(config: Config, nqn: str, host: str) -> Config:
    """One host less may connect."""
    subsystem = find(config, nqn)
    if subsystem.allow_any_host:
        raise EditError(_ANY_HOST.format(nqn=nqn))
    if host not in subsystem.host_nqns:
        raise EditError(f"{host} is not one of the hosts of {nqn}")
    return _put(
        config,
        nqn,
        hosts=tuple(h for h in subsystem.hosts if h != host),
        host_tables=tuple(t for t in subsystem.host_tables if t.nqn != host),
    )


def allow_any_host(config: Config, nqn: str, allow: bool) -> Config:
    """Every host may connect, or (False) those that are named from then on."""
    subsystem = find(config, nqn)
    if subsystem.allow_any_host == allow:
        return config
    if any(host.authenticates for host in subsystem.host_tables):
        raise EditError(f"{nqn} has hosts that have to authenticate: remove them first")
    return _put(config, nqn, allow_any_host=allow, hosts=(), host_tables=())


# ---- ports ----


def find_port(config: Config, traddr: str, trsvcid: int) -> PortConfig:
    """The port with this address."""
    for port in config.ports:
        if (port.traddr, port.trsvcid) == (traddr, trsvcid):
            return port
    raise EditError(f"there is no port {endpoint(traddr, trsvcid)}")


def add_port(config: Config, port: PortConfig) -> Config:
    """A port more."""
    same = (p for p in config.ports if (p.traddr, p.trsvcid) == (port.traddr, port.trsvcid))
    if port.trsvcid and any(same):
        raise EditError(f"there is a port {endpoint(port.traddr, port.trsvcid)} already")
    changed: Config = _with(config, ports=(*config.ports, port))
    return changed


def remove_port(config: Config, traddr: str, trsvcid: int) -> Config:
    """A port less.  Without the last one the target goes on, and hosts cannot connect."""
    port = find_port(config, traddr, trsvcid)
    changed: Config = _with(config, ports=tuple(p for p in config.ports if p is not port))
    return changed


def set_ana(config: Config, traddr: str, trsvcid: int, group: int, state: str) -> Config:
    """Another ANA state of a group on a port."""
    port = find_port(config, traddr, trsvcid)
    made = model(AnaGroupConfig, {"id": group, "state": state.replace("_", "-")})
    groups = {one.id: one for one in port.ana_groups} | {group: made}
    kept = tuple(groups[id] for id in sorted(groups))
    changed = _with(port, ana_groups=kept)
    ports = tuple(changed if one is port else one for one in config.ports)
    whole: Config = _with(config, ports=ports)
    return whole


# ---- referrals ----


def add_referral(config: Config, referral: ReferralConfig) -> Config:
    """Another discovery service that hosts are told of."""
    changed: Config = _with(config, referrals=(*config.referrals, referral))
    return changed


def remove_referral(config: Config, traddr: str, trsvcid: int, trtype: str = "rdma") -> Config:
    """One less."""
    place = (trtype, traddr, trsvcid)
    kept = tuple(r for r in config.referrals if (r.trtype, r.traddr, r.trsvcid) != place)
    if len(kept) == len(config.referrals):
        raise EditError(f"there is no referral to {trtype} {endpoint(traddr, trsvcid)}")
    changed: Config = _with(config, referrals=kept)
    return changed
