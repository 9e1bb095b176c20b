# SPDX-License-Identifier: BSD-3-Clause
"""What the SMART log counts over the life of a subsystem (Base 2.0, 5.16.1.3), and its file.

Commands and bytes are the engine's counters of the namespaces that are served now, on top of what
was kept, by UUID, of those before.  The power of a subsystem is that it is served.  A namespace
that is masked is in the sum of the hosts that see it, and of no other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from nvmf.target.command.engine import EngineNamespace

COUNTS = ("read_bytes", "write_bytes", "reads", "writes", "media_errors")
ABSENT_MOST = 1024
"""Namespaces of a subsystem that are remembered by themselves while they are not there."""
SUBSYSTEMS_MOST = 1024
"""Subsystems that are remembered while they are not served."""

Counts = dict[str, int]
"""By the names of COUNTS."""


def _add(into: Counts, more: Counts) -> None:
    for name in COUNTS:
        into[name] = into.get(name, 0) + more.get(name, 0)


def smart_counts(engine: EngineNamespace) -> Counts:
    """The engine's counters in the words of the log (NVM Command Set 1.0, 1.4.2).

    Compare and Verify read data units, and Compare is a read command; Write Zeroes writes none.
    """
    stats = engine.stats
    return {
        "read_bytes": stats.get("read_bytes", 0) + stats.get("checked_bytes", 0),
        "write_bytes": stats.get("write_bytes", 0),
        "reads": stats.get("reads", 0) + stats.get("compares", 0),
        "writes": stats.get("writes", 0),
        "media_errors": stats.get("media_errors", 0),
    }


@dataclass
class _Live:
    """A namespace of the engine, and how busy its reactors were with it when last looked at."""

    engine: EngineNamespace
    busy: list[int]


@dataclass
class NamespaceHealth:
    """A namespace, whatever stores it has had."""

    kept: Counts = field(default_factory=dict)
    """Of engine namespaces that have gone."""
    masked: bool = False
    live: dict[int, _Live] = field(default_factory=dict)
    """By the identity of the engine's; seldom more than one, while one takes another's place."""

    def totals(self) -> Counts:
        """With those that the engine counts now."""
        found = {name: self.kept.get(name, 0) for name in COUNTS}
        for one in self.live.values():
            _add(found, smart_counts(one.engine))
        return found


@dataclass
class SubsystemHealth:
    """The life of a subsystem.  Times are of one monotonic clock, in seconds."""

    power_cycles: int = 0
    unsafe_shutdowns: int = 0
    on_seconds: float = 0.0
    """Until the clock stood at looked."""
    busy_seconds: float = 0.0
    """The same, with I/O commands under way."""
    on: bool = False
    looked: float = 0.0
    gone: Counts = field(default_factory=dict)
    """Of namespaces that are not remembered by themselves any more."""
    spaces: dict[UUID, NamespaceHealth] = field(default_factory=dict)

    def power_on(self, now: float) -> None:
        """It is served from now on."""
        if not self.on:
            self.on, self.looked = True, now
            self.power_cycles += 1

    def power_off(self, now: float) -> None:
        """It is served no more; namespaces may have to be told gone yet."""
        self.look(now)
        self.on = False

    def look(self, now: float) -> None:
        """Count the time since the last look.

        Its reactors are busy with its namespaces each for a part of it; how these parts lie to
        each other is not known, and taken as chance has it.
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
        """A namespace is there, or is masked in another way."""
        space = self.spaces.setdefault(uuid, NamespaceHealth())
        space.masked = masked
        space.live.setdefault(id(engine), _Live(engine, engine.busy()))

    def went(self, uuid: UUID, engine: EngineNamespace) -> None:
        """No reactor uses a namespace any more: keep what it has counted."""
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
        """The engine is about to end."""
        for uuid, space in list(self.spaces.items()):
            for one in list(space.live.values()):
                self.went(uuid, one.engine)

    def totals(self, seen: Collection[UUID]) -> Counts:
        """What a host is told that sees these namespaces."""
        found = {name: self.gone.get(name, 0) for name in COUNTS}
        for uuid, space in self.spaces.items():
            if uuid in seen or not space.masked:
                _add(found, space.totals())
        return found

    def of(self, uuid: UUID) -> Counts:
        """The counts of one namespace."""
        return self.spaces[uuid].totals() if uuid in self.spaces else {}

    # ---- its file ----

    def body(self) -> dict[str, Any]:
        """What is kept of it, as JSON has it."""
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
    def of_body(cls, body: dict[str, Any]) -> SubsystemHealth:
        """What was kept; on where it was not shut down.

        ValueError, TypeError, KeyError or AttributeError where it is nothing of the kind.
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


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _counts(body: dict[str, Any]) -> Counts:
    return {name: _number(body[name]) for name in COUNTS}
