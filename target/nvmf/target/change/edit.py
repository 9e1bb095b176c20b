# SPDX-License-Identifier: BSD-3-Clause
"""Changes to a configuration: each returns a new configuration, validated as a whole.

The target is not affected here.  EditError says why a change is impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nvmf.config.base import Loc, endpoint
from nvmf.config.hosts import HostConfig
from nvmf.config.models import (
    AnaGroupConfig,
    BdevConfig,
    Config,
    NamespaceConfig,
    PortConfig,
    ReferralConfig,
    SubsystemConfig,
)
from nvmf.config.words import expectation, place_of
from nvmf.errors import Error

_FAULTS_MOST = 100
"""Maximum invalid values that are described: it takes time, and hosts have to wait meanwhile."""
_TOLD_MOST = 8
M = TypeVar("M", bound=BaseModel)
Edit: TypeAlias = Callable[[Config], Config]


class EditError(Error):
    """The change is impossible: the message names the conflict or the missing object."""


class NoSuchSubsystem(EditError):
    """The subsystem to be changed does not exist."""


def model(kind: type[M], values: Mapping[str, object]) -> M:
    """Return a table of the configuration; EditError names invalid keys, with the reasons."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise EditError(_said(error, place_of(kind))) from None


def faults(error: ValidationError) -> list[ErrorDetails]:
    """Return the first errors, for a message; raise EditError if there are very many."""
    if error.error_count() > _FAULTS_MOST:
        raise EditError(f"{error.error_count()} invalid values, too many to list")
    return list(error.errors(include_url=False)[:_TOLD_MOST])


def _said(error: ValidationError, place: Loc) -> str:
    said = []
    for detail in faults(error):
        key = ".".join(str(part) for part in detail["loc"])
        words = expectation(detail, place)
        said.append(f"{key}: {words}" if key else words)
    return "; ".join(said)


def _with(table: M, **values: object) -> M:
    """Return the table with changed values, validated."""
    known = {name: getattr(table, name) for name in type(table).model_fields}
    return model(type(table), known | values)


def find(config: Config, nqn: str) -> SubsystemConfig:
    """Return the subsystem with this NQN."""
    for subsystem in config.subsystems:
        if subsystem.nqn == nqn:
            return subsystem
    raise NoSuchSubsystem(f"there is no subsystem {nqn}")


def find_namespace(config: Config, nqn: str, nsid: int) -> NamespaceConfig:
    """Return the namespace with this NSID, enabled or not."""
    for number, namespace in find(config, nqn).numbered():
        if number == nsid:
            return namespace
    raise EditError(f"there is no namespace {nsid} in {nqn}")


def _put(config: Config, nqn: str, **values: object) -> Config:
    """Change values of a subsystem."""
    changed = _with(find(config, nqn), **values)
    return _config(config, tuple(changed if s.nqn == nqn else s for s in config.subsystems))


def _config(config: Config, subsystems: tuple[SubsystemConfig, ...]) -> Config:
    return _with(config, subsystems=subsystems)


def _pinned(subsystem: SubsystemConfig) -> list[NamespaceConfig]:
    """Return the namespaces with explicit NSIDs, so that these do not shift."""
    return [
        namespace if namespace.nsid is not None else _with(namespace, nsid=nsid)
        for nsid, namespace in subsystem.numbered()
    ]


# ---- subsystems ----


def add_subsystem(config: Config, subsystem: SubsystemConfig) -> Config:
    """Add a subsystem."""
    if any(s.nqn == subsystem.nqn for s in config.subsystems):
        raise EditError(f"subsystem {subsystem.nqn} already exists")
    return _config(config, (*config.subsystems, subsystem))


def remove_subsystem(config: Config, nqn: str) -> Config:
    """Remove a subsystem, with its namespaces; their bdevs stay."""
    gone = find(config, nqn)
    kept = _config(config, tuple(s for s in config.subsystems if s.nqn != nqn))
    return _free(kept, gone.namespaces)


# ---- namespaces ----


def add_namespace(config: Config, nqn: str, namespace: NamespaceConfig) -> tuple[Config, int]:
    """Add a namespace; return its NSID too, by default the lowest free one."""
    subsystem = find(config, nqn)
    spaces = _pinned(subsystem)
    taken = {n.nsid for n in spaces}
    nsid = namespace.nsid
    if nsid is None:
        free = (n for n in range(1, subsystem.max_namespaces + 1) if n not in taken)
        nsid = next(free, None)
        if nsid is None:
            raise EditError(
                f"{nqn} already has {subsystem.max_namespaces} namespaces (max_namespaces)"
            )
    if nsid in taken:
        raise EditError(f"namespace {nsid} already exists in {nqn}")
    if nsid > subsystem.max_namespaces:
        raise EditError(
            f"nsid {nsid} is above max_namespaces = {subsystem.max_namespaces} of {nqn}"
        )
    _check_path(config, namespace)
    spaces.append(_with(namespace, nsid=nsid))
    return _put(config, nqn, namespaces=tuple(sorted(spaces, key=lambda n: n.nsid or 0))), nsid


def _check_path(config: Config, namespace: NamespaceConfig, but: tuple[str, int] = ("", 0)) -> None:
    """Refuse a second writer of a file; but: the namespace that is about to release the file."""
    if namespace.path is None or not namespace.enabled:
        return
    for subsystem in config.subsystems:
        for nsid, other in subsystem.numbered():
            same = other.path == namespace.path and other.enabled and (subsystem.nqn, nsid) != but
            if same and not (other.read_only and namespace.read_only):
                raise EditError(
                    f"{namespace.path} is already namespace {nsid} of {subsystem.nqn}: only one "
                    "namespace may write it, or several may read it"
                )
    for bdev in config.bdevs:
        if bdev.path == namespace.path and not (bdev.read_only and namespace.read_only):
            raise EditError(f"{namespace.path} is already used by bdev {bdev.name}")


def remove_namespace(config: Config, nqn: str, nsid: int) -> Config:
    """Remove a namespace; its bdev stays."""
    gone = find_namespace(config, nqn, nsid)
    kept = tuple(n for n in _pinned(find(config, nqn)) if n.nsid != nsid)
    return _free(_put(config, nqn, namespaces=kept), [gone])


def _free(config: Config, gone: Iterable[NamespaceConfig]) -> Config:
    """Add the bdevs of removed namespaces to those that are not a namespace."""
    bdevs = [_bdev(n) for n in gone if n.bdev is not None]
    return _with(config, bdevs=(*config.bdevs, *bdevs)) if bdevs else config


def _bdev(namespace: NamespaceConfig) -> BdevConfig:
    shared = BdevConfig.model_fields.keys() & NamespaceConfig.model_fields.keys()
    values: dict[str, object] = {name: getattr(namespace, name) for name in shared}
    return model(BdevConfig, {**values, "name": namespace.bdev})


def change_namespace(config: Config, nqn: str, nsid: int, **values: object) -> Config:
    """Change values of a namespace; if it gets a different store, its bdev stays without it."""
    old = find_namespace(config, nqn, nsid)
    other = {**values, "bdev": None} if "store" in values else values
    spaces = _pinned(find(config, nqn))
    place = next(i for i, n in enumerate(spaces) if n.nsid == nsid)
    spaces[place] = _with(spaces[place], **other)
    _check_path(config, spaces[place], (nqn, nsid))
    changed = _put(config, nqn, namespaces=tuple(spaces))
    return _free(changed, [old] if other is not values else [])


def show_namespace(config: Config, nqn: str, nsid: int, host: str) -> Config:
    """Add a host that sees a masked namespace."""
    hosts = find_namespace(config, nqn, nsid).hosts
    if hosts is None:
        raise EditError(f"every host sees namespace {nsid} of {nqn}: it is not masked")
    if host in hosts:
        raise EditError(f"{host} already sees namespace {nsid} of {nqn}")
    return change_namespace(config, nqn, nsid, hosts=(*hosts, host))


def hide_namespace(config: Config, nqn: str, nsid: int, host: str) -> Config:
    """Remove a host that sees a masked namespace."""
    hosts = find_namespace(config, nqn, nsid).hosts
    if hosts is None:
        raise EditError(f"every host sees namespace {nsid} of {nqn}: it is not masked")
    if host not in hosts:
        raise EditError(f"{host} does not see namespace {nsid} of {nqn}")
    return change_namespace(config, nqn, nsid, hosts=tuple(h for h in hosts if h != host))


# ---- hosts ----

_ANY_HOST = (
    "{nqn} allows every host: allow_any_host is true. To keep some hosts connected, list them in "
    "the configuration file instead and reload; target host remove --any disconnects all"
)


def allow_host(config: Config, nqn: str, host: str, table: HostConfig | None = None) -> Config:
    """Allow a host to connect; table: its keys, if it has to authenticate."""
    subsystem = find(config, nqn)
    if subsystem.allow_any_host:
        raise EditError(_ANY_HOST.format(nqn=nqn))
    if host in subsystem.host_nqns:
        raise EditError(f"{host} is already allowed to connect to {nqn}")
    if table is not None:
        return _put(config, nqn, host_tables=(*subsystem.host_tables, table))
    return _put(config, nqn, hosts=(*subsystem.hosts, host))


def set_keys(config: Config, nqn: str, host: str, values: Mapping[str, object]) -> Config:
    """Set or remove the keys of an allowed host; hashes and groups stay unless given.

    values: the keys of its table that locate its authentication keys, and other changes.
    """
    subsystem = find(config, nqn)
    if host not in subsystem.host_nqns:
        raise EditError(f"{host} is not an allowed host of {nqn}: add it first")
    old = next((t for t in subsystem.host_tables if t.nqn == host), None)
    made = _with(old or HostConfig(nqn=host), **{**dict.fromkeys(HostConfig.KEYS), **values})
    return _put(
        config,
        nqn,
        hosts=tuple(h for h in subsystem.hosts if h != host),
        host_tables=tuple(made if t is old else t for t in subsystem.host_tables)
        if old is not None
        else (*subsystem.host_tables, made),
    )


def remove_host(config: Config, nqn: str, host: str) -> Config:
    """Remove a host that is allowed to connect."""
    subsystem = find(config, nqn)
    if subsystem.allow_any_host:
        raise EditError(_ANY_HOST.format(nqn=nqn))
    if host not in subsystem.host_nqns:
        raise EditError(f"{host} is not an allowed host of {nqn}")
    return _put(
        config,
        nqn,
        hosts=tuple(h for h in subsystem.hosts if h != host),
        host_tables=tuple(t for t in subsystem.host_tables if t.nqn != host),
    )


def allow_any_host(config: Config, nqn: str, allow: bool) -> Config:
    """Allow every host to connect, or (False) only hosts that are added from then on."""
    subsystem = find(config, nqn)
    if subsystem.allow_any_host == allow:
        return config
    if any(host.authenticates for host in subsystem.host_tables):
        raise EditError(f"{nqn} has hosts with keys: remove them first")
    return _put(config, nqn, allow_any_host=allow, hosts=(), host_tables=())


# ---- ports ----


def find_port(config: Config, traddr: str, trsvcid: int) -> PortConfig:
    """Return the port with this address."""
    for port in config.ports:
        if (port.traddr, port.trsvcid) == (traddr, trsvcid):
            return port
    raise EditError(f"there is no port {endpoint(traddr, trsvcid)}")


def add_port(config: Config, port: PortConfig) -> Config:
    """Add a port."""
    same = (p for p in config.ports if (p.traddr, p.trsvcid) == (port.traddr, port.trsvcid))
    if port.trsvcid and any(same):
        raise EditError(f"port {endpoint(port.traddr, port.trsvcid)} already exists")
    changed: Config = _with(config, ports=(*config.ports, port))
    return changed


def remove_port(config: Config, traddr: str, trsvcid: int) -> Config:
    """Remove a port.  Without any port the target keeps running, but hosts cannot connect."""
    port = find_port(config, traddr, trsvcid)
    changed: Config = _with(config, ports=tuple(p for p in config.ports if p is not port))
    return changed


def set_ana(config: Config, traddr: str, trsvcid: int, group: int, state: str) -> Config:
    """Set the ANA state of a group on a port."""
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
    """Add a referral to a different discovery service."""
    changed: Config = _with(config, referrals=(*config.referrals, referral))
    return changed


def remove_referral(config: Config, traddr: str, trsvcid: int, trtype: str = "rdma") -> Config:
    """Remove a referral."""
    place = (trtype, traddr, trsvcid)
    kept = tuple(r for r in config.referrals if (r.trtype, r.traddr, r.trsvcid) != place)
    if len(kept) == len(config.referrals):
        raise EditError(f"there is no referral to {trtype} {endpoint(traddr, trsvcid)}")
    changed: Config = _with(config, referrals=kept)
    return changed


def announce(config: Config, *, enabled: bool) -> Config:
    """Announce the discovery service by mDNS, or stop that."""
    return _with(config, mdns=_with(config.mdns, enabled=enabled))
