# SPDX-License-Identifier: BSD-3-Clause
"""The difference between two configurations, as actions to take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nvmf.config.limits import LimitsConfig
from nvmf.config.models import (
    Config,
    NamespaceConfig,
    PortConfig,
    ReferralConfig,
    SubsystemConfig,
)
from nvmf.config.services import MdnsConfig

SUBSYSTEM_LIVE = {"nqn", "namespaces", "allow_any_host", "hosts", "host_tables"}
"""Subsystem keys that can change while hosts are connected; others require a new subsystem."""
NAMESPACE_LIVE = {"nsid", "size", "hosts", "ana_group", "limits", "hotplug", "bdev"}
"""Namespace keys that can change while in use; others require a new namespace."""
MEMORY_KEYS = {"memory", "memory_read_only"}
"""More of these: who may use a namespace as memory."""
MIRROR_KEYS = {"legs", "quorum", "resync_rate"}
"""More of these, for a mirror."""
AT_START = ("target", "iwarp", "rpc", "metrics")
"""Tables that are read only when a target starts."""


@dataclass(slots=True)
class SubsystemChange:
    """A subsystem that is in both configurations."""

    old: SubsystemConfig
    new: SubsystemConfig
    removed: list[int] = field(default_factory=list)
    """NSIDs, including those of replaced namespaces."""
    added: dict[int, NamespaceConfig] = field(default_factory=dict)
    resized: dict[int, int] = field(default_factory=dict)
    """NSID to bytes; 0: the size of the file or device."""
    masked: dict[int, frozenset[str] | None] = field(default_factory=dict)
    """Remaining namespaces that become visible to different hosts."""
    regrouped: dict[int, int] = field(default_factory=dict)
    """Remaining namespaces that move to a different ANA group."""
    limited: dict[int, LimitsConfig] = field(default_factory=dict)
    """Remaining namespaces with changed limits."""
    exported: dict[int, NamespaceConfig] = field(default_factory=dict)
    """Remaining namespaces that become memory of different hosts."""
    mirrored: dict[int, tuple[NamespaceConfig, NamespaceConfig]] = field(default_factory=dict)
    """Remaining mirrors that get different legs: old and new configuration."""
    rebuilt: bool = False
    """Whether it is recreated with the same namespaces: its hosts reconnect."""
    access: bool = False
    """Whether the list of allowed hosts changes."""
    keys: bool = False
    """Whether to read host keys again, because key files may have changed; the reader resets it if
    the keys are the same."""

    def __bool__(self) -> bool:
        tables = (self.removed, self.added, self.resized, self.masked, self.regrouped, self.limited)
        more = bool(self.exported) or bool(self.mirrored)
        return any(tables) or more or self.rebuilt or self.access or self.keys


@dataclass(slots=True)
class Difference:
    """All actions to take."""

    ports_removed: list[PortConfig] = field(default_factory=list)
    ports_added: list[PortConfig] = field(default_factory=list)
    ports_changed: list[tuple[PortConfig, PortConfig]] = field(default_factory=list)
    """Old and new configuration of ports that stay open, with changed ANA states."""
    removed: list[SubsystemConfig] = field(default_factory=list)
    added: list[SubsystemConfig] = field(default_factory=list)
    changed: list[SubsystemChange] = field(default_factory=list)
    referrals: tuple[ReferralConfig, ...] | None = None
    """The complete new list; None: unchanged."""
    mdns: MdnsConfig | None = None
    """The new announcement settings; None: unchanged."""
    bdevs: bool = False
    """Whether the list of bdevs changes, which needs no action."""

    def __bool__(self) -> bool:
        ports = (self.ports_removed, self.ports_added, self.ports_changed)
        tables = (self.referrals, self.mdns)
        subsystems = (self.removed, self.added, any(self.changed))
        return any((*ports, *subsystems, self.bdevs)) or tables != (None, None)

    def sentence(self) -> str:
        """Return a summary with counts, for logs."""
        spaces = self.changed
        counts = (
            (len(self.ports_added), "port added", "ports added"),
            (len(self.ports_removed), "port removed", "ports removed"),
            (len(self.ports_changed), "port with other ANA states", "ports with other ANA states"),
            (int(self.referrals is not None), "list of referrals changed", ""),
            (int(self.mdns is not None), "announcement (mDNS) changed", ""),
            (int(self.bdevs), "list of bdevs changed", ""),
            (len(self.added), "subsystem added", "subsystems added"),
            (len(self.removed), "subsystem removed", "subsystems removed"),
            (sum(c.rebuilt for c in spaces), "subsystem recreated", "subsystems recreated"),
            (sum(c.access for c in spaces), "list of hosts changed", "lists of hosts changed"),
            (sum(c.keys for c in spaces), "list of keys read", "lists of keys read"),
            (sum(len(c.added) for c in spaces), "namespace added", "namespaces added"),
            (sum(len(c.removed) for c in spaces), "namespace removed", "namespaces removed"),
            (sum(len(c.resized) for c in spaces), "namespace resized", "namespaces resized"),
            (sum(len(c.masked) for c in spaces), "namespace masked", "namespaces masked"),
            (sum(len(c.regrouped) for c in spaces), "namespace regrouped", "namespaces regrouped"),
            (sum(len(c.limited) for c in spaces), "namespace limited", "namespaces limited"),
            (
                sum(len(c.exported) for c in spaces),
                "export of memory changed",
                "exports of memory changed",
            ),
            (sum(len(c.mirrored) for c in spaces), "mirror changed", "mirrors changed"),
        )
        said = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n]
        return ", ".join(said) or "nothing to do"


def served(config: SubsystemConfig) -> dict[int, NamespaceConfig]:
    """Return the namespaces to serve, by NSID."""
    return {nsid: n for nsid, n in config.numbered() if n.enabled}


def mask(config: NamespaceConfig) -> frozenset[str] | None:
    """Return the hosts that see a namespace; None: all."""
    return frozenset(config.hosts) if config.hosts is not None else None


def compare(old: Config, new: Config, follow: Iterable[tuple[str, int]] = ()) -> Difference:
    """Return the changes from old to new.

    follow: namespaces (NQN, NSID) that take the size of their file again.
    """
    found = Difference()
    _ports(found, old.ports, new.ports)
    found.referrals = new.referrals if old.referrals != new.referrals else None
    found.mdns = new.mdns if old.mdns != new.mdns else None
    found.bdevs = old.bdevs != new.bdevs
    before = {s.nqn: s for s in old.subsystems}
    after = {s.nqn: s for s in new.subsystems}
    found.removed = [s for nqn, s in before.items() if nqn not in after]
    found.added = [s for nqn, s in after.items() if nqn not in before]
    followed = list(follow)
    for nqn, was in before.items():
        if nqn in after:
            again = {nsid for name, nsid in followed if name == nqn}
            if was is not after[nqn] or again:
                change = _subsystem(was, after[nqn], again)
                if change is not None:
                    found.changed.append(change)
    return found


def fixed(old: Config, new: Config) -> list[str]:
    """Return a message for each changed table that is read only at start, with its changed keys."""
    found = []
    for name in AT_START:
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            keys = [key for key in type(was).model_fields if getattr(was, key) != getattr(now, key)]
            found.append(
                f"[{name}] changed ({', '.join(keys)}) but is read only at start: restart the "
                "target to apply it"
            )
    return found


def _ports(found: Difference, old: tuple[PortConfig, ...], new: tuple[PortConfig, ...]) -> None:
    """Compare ports by listening address; ports that take a free number may have the same one."""
    before, after = _by_listener(old), _by_listener(new)
    for listener in {**before, **after}:
        was, now = before.get(listener, []), after.get(listener, [])
        for one in [port for port in was if port in now]:
            if one in now:
                was.remove(one)
                now.remove(one)
        stay = min(len(was), len(now))
        found.ports_changed += zip(was[:stay], now[:stay], strict=True)
        found.ports_removed += was[stay:]
        found.ports_added += now[stay:]


def _by_listener(ports: tuple[PortConfig, ...]) -> dict[PortConfig, list[PortConfig]]:
    found: dict[PortConfig, list[PortConfig]] = {}
    for port in ports:
        found.setdefault(port.model_copy(update={"ana_groups": (), "hotplug": False}), []).append(
            port
        )
    return found


def _subsystem(
    old: SubsystemConfig, new: SubsystemConfig, follow: set[int]
) -> SubsystemChange | None:
    change = SubsystemChange(old, new)
    change.rebuilt = bool(_differing(old, new) - SUBSYSTEM_LIVE)
    hosts, before_hosts = set(new.host_nqns), set(old.host_nqns)
    change.access = (old.allow_any_host, before_hosts) != (new.allow_any_host, hosts)
    change.keys = any(host.authenticates for host in (*old.host_tables, *new.host_tables))
    before, after = served(old), served(new)
    for nsid, was in before.items():
        now = after.get(nsid)
        if now is None:
            change.removed.append(nsid)
        elif now != was or nsid in follow:
            _namespace(change, nsid, was, now, follow)
    change.added.update({nsid: n for nsid, n in after.items() if nsid not in before})
    return change or None


def _namespace(
    change: SubsystemChange,
    nsid: int,
    was: NamespaceConfig,
    now: NamespaceConfig,
    follow: set[int],
) -> None:
    keys = _differing(was, now)
    if keys - NAMESPACE_LIVE - MEMORY_KEYS - MIRROR_KEYS:
        change.removed.append(nsid)
        change.added[nsid] = now
        return
    if "size" in keys or nsid in follow:
        change.resized[nsid] = now.size or 0
    if keys & MIRROR_KEYS:
        change.mirrored[nsid] = (was, now)
    if keys & MEMORY_KEYS:
        change.exported[nsid] = now
    if "limits" in keys:
        change.limited[nsid] = now.limits
    if "hosts" in keys:
        change.masked[nsid] = mask(now)
    if "ana_group" in keys:
        change.regrouped[nsid] = now.ana_group


def _differing(old: SubsystemConfig | NamespaceConfig, new: object) -> set[str]:
    """Return the keys whose values differ."""
    names = type(old).model_fields
    return {name for name in names if getattr(old, name) != getattr(new, name)}
