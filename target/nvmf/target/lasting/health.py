# SPDX-License-Identifier: BSD-3-Clause
"""The counters of the SMART log over the life of a subsystem (Base 2.0, 5.16.1.3), and their file.

Commands and bytes are the sum of the engine's counters for the namespaces served now and of stored
counters, by UUID, for earlier ones.  A subsystem counts as powered on while it is served.  A masked
namespace is included in the totals only for hosts that see it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypedDict
from uuid import UUID

from nvmf.target.command.engine import EngineNamespace

COUNTS = ("read_bytes", "write_bytes", "reads", "writes", "media_errors")
ABSENT_MOST = 1024
"""Maximum absent namespaces of a subsystem whose counters are kept individually."""
SUBSYSTEMS_MOST = 1024
"""Maximum subsystems whose counters are kept while they are not served."""

Counts = dict[str, int]
"""Values by the names in COUNTS."""


def _add(into: Counts, more: Counts) -> None:
    for name in COUNTS:
        into[name] = into.get(name, 0) + more.get(name, 0)


def smart_counts(engine: EngineNamespace) -> Counts:
    """Return the engine's counters with the definitions of the log (NVM Command Set 1.0, 1.4.2).

    Compare and Verify count as data units read, and Compare as a read command; Write Zeroes does
    not count as data units written. Copy is both a read and a write command, and counts as data
    units written alone.
    """
    stats = engine.stats
    copies = stats.get("copies", 0)
    return {
        "read_bytes": stats.get("read_bytes", 0) + stats.get("checked_bytes", 0),
        "write_bytes": stats.get("write_bytes", 0) + stats.get("copied_bytes", 0),
        "reads": stats.get("reads", 0) + stats.get("compares", 0) + copies,
        "writes": stats.get("writes", 0) + copies,
        "media_errors": stats.get("media_errors", 0),
    }


class SubsystemBody(TypedDict):
    """The stored form of a subsystem's counters."""

    power_cycles: int
    unsafe_shutdowns: int
    on_seconds: float
    busy_seconds: float
    on: bool
    gone: dict[str, int]
    namespaces: dict[str, dict[str, int | bool]]
    """By UUID: the counters, and masked (whether its errors are not reported)."""


@dataclass
class _Live:
    """A namespace of the engine, and the reactors' busy times with it at the last update."""

    engine: EngineNamespace
    busy: list[int]


@dataclass
class NamespaceHealth:
    """The counters of a namespace, across all stores it has had."""

    kept: Counts = field(default_factory=dict)
    """Counts of engine namespaces that have ended."""
    masked: bool = False
    live: dict[int, _Live] = field(default_factory=dict)
    """By id() of the engine's namespace; more than one only during a replacement."""

    def totals(self) -> Counts:
        """Return kept and current counts together."""
        found = {name: self.kept.get(name, 0) for name in COUNTS}
        for one in self.live.values():
            _add(found, smart_counts(one.engine))
        return found


@dataclass
class SubsystemHealth:
    """The counters of a subsystem.  Times are from one monotonic clock, in seconds."""

    power_cycles: int = 0
    unsafe_shutdowns: int = 0
    on_seconds: float = 0.0
    """Time powered on, until the clock time in looked."""
    busy_seconds: float = 0.0
    """The part of it with I/O commands in progress."""
    on: bool = False
    looked: float = 0.0
    degraded: set[int] = field(default_factory=set)
    """NSIDs of mirrors that have lost redundancy; not stored."""
    gone: Counts = field(default_factory=dict)
    """Counts of namespaces that are no longer kept individually."""
    spaces: dict[UUID, NamespaceHealth] = field(default_factory=dict)

    def power_on(self, now: float) -> None:
        """Record that the subsystem is served from now on."""
        if not self.on:
            self.on, self.looked = True, now
            self.power_cycles += 1

    def power_off(self, now: float) -> None:
        """Record that the subsystem is no longer served; calls of went() may still follow."""
        self.look(now)
        self.on = False

    def look(self, now: float) -> None:
        """Add the time since the last update.

        Each reactor was busy with each namespace for part of that time; how these parts overlap is
        not known, and they are treated as independent.
        """
        elapsed = now - self.looked
        if not self.on or elapsed <= 0:
            return
        idle = 1.0
        for space in self.spaces.values():
            for one in space.live.values():
                busy = one.engine.busy()
                for before, after in zip(one.busy, busy, strict=True):
                    idle *= 1 - min(max(after - before, 0) / 1e9 / elapsed, 1.0)
                one.busy = busy
        self.busy_seconds += elapsed * (1 - idle)
        self.on_seconds += elapsed
        self.looked = now

    def come(self, uuid: UUID, engine: EngineNamespace, *, masked: bool) -> None:
        """Record that a namespace is added, or that its mask has changed."""
        space = self.spaces.setdefault(uuid, NamespaceHealth())
        space.masked = masked
        space.live.setdefault(id(engine), _Live(engine, engine.busy()))

    def went(self, uuid: UUID, engine: EngineNamespace) -> None:
        """Keep the counts of a namespace that no reactor uses any longer."""
        space = self.spaces.get(uuid)
        if space is None or space.live.pop(id(engine), None) is None:
            return
        _add(space.kept, smart_counts(engine))
        absent = [one for one, other in self.spaces.items() if not other.live]
        for one in absent[:-ABSENT_MOST]:
            left = self.spaces.pop(one)
            if not left.masked:
                _add(self.gone, left.kept)

    def all_went(self) -> None:
        """Call went() for all namespaces, before the engine ends."""
        for uuid, space in list(self.spaces.items()):
            for one in list(space.live.values()):
                self.went(uuid, one.engine)

    def totals(self, seen: Collection[UUID]) -> Counts:
        """Return the totals for a host that sees these namespaces."""
        found = {name: self.gone.get(name, 0) for name in COUNTS}
        for uuid, space in self.spaces.items():
            if uuid in seen or not space.masked:
                _add(found, space.totals())
        return found

    def of(self, uuid: UUID) -> Counts:
        """Return the counts of one namespace."""
        return self.spaces[uuid].totals() if uuid in self.spaces else {}

    # ---- its file ----

    def body(self) -> SubsystemBody:
        """Return the stored form of the counters, for JSON."""
        return {
            "power_cycles": self.power_cycles,
            "unsafe_shutdowns": self.unsafe_shutdowns,
            "on_seconds": round(self.on_seconds, 3),
            "busy_seconds": round(self.busy_seconds, 3),
            "on": self.on,
            "gone": self.gone,
            "namespaces": {
                str(uuid): {**space.totals(), "masked": space.masked}
                for uuid, space in self.spaces.items()
            },
        }

    @classmethod
    def of_body(cls, body: SubsystemBody) -> SubsystemHealth:
        """Decode the stored form; on is set if the subsystem was not shut down.

        Raise ValueError, TypeError, KeyError or AttributeError if it is invalid.
        """
        spaces = {
            UUID(uuid): NamespaceHealth(_counts(one), bool(one["masked"]))
            for uuid, one in body["namespaces"].items()
        }
        return cls(
            _number(body["power_cycles"]),
            _number(body["unsafe_shutdowns"]),
            float(body["on_seconds"]),
            float(body["busy_seconds"]),
            bool(body["on"]),
            gone=_counts(body["gone"]) if body["gone"] else {},
            spaces=spaces,
        )


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _counts(body: Mapping[str, object]) -> Counts:
    return {name: _number(body[name]) for name in COUNTS}
