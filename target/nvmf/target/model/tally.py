# SPDX-License-Identifier: BSD-3-Clause
"""What the control side counts: events, and the counters of queue pairs that have gone.

Commands are counted by the engine, in each queue pair and namespace.  Nothing here goes back while
the target runs, and all of it has a bound, however many hosts there are and whatever their names.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from nvmf.spec.cm import CmRejectError
from nvmf.spec.status import status_name

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller

COUNTERS = (
    "commands",
    "errors",
    "read_bytes",
    "write_bytes",
    "malformed",
    "waited_for_buffer",
)
"""Of a queue pair (nvmf.engine.Qpair.stats), those that only grow."""
OTHER = "other"
"""The name of all hosts that have none of their own; no NQN."""
_LOST_MOST = 4096
"""Associations that are remembered as lost."""


class Totals(dict[str, int]):
    """Sums of COUNTERS."""

    def add(self, stats: Mapping[str, int]) -> None:
        """Those of a queue pair too."""
        for name in COUNTERS:
            self[name] = self.get(name, 0) + stats.get(name, 0)


class Hosts:
    """Which hosts are counted by name: a limited number, those that are connected before others.

    A name is given to a connection for as long as it lasts, so that what was counted under one
    name does not move to another.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: OrderedDict[str, Totals] = OrderedDict()
        """What ended connections have counted; who joined last is last."""
        self._open: Counter[str] = Counter()
        self._other = Totals()

    def joined(self, hostnqn: str) -> str:
        """A connection is this host's from now on; under which name it counts."""
        if hostnqn not in self._named and not self._make_room():
            hostnqn = OTHER
        else:
            self._named.setdefault(hostnqn, Totals())
            self._named.move_to_end(hostnqn)
        self._open[hostnqn] += 1
        return hostnqn

    def ended(self, name: str, stats: Mapping[str, int]) -> None:
        """A connection of this name has ended, with these counters."""
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
        self._named.get(name, self._other).add(stats)

    def totals(self) -> dict[str, Totals]:
        """Of each name, what connections that have ended counted; a copy."""
        found = {name: Totals(totals) for name, totals in self._named.items()}
        if self._other or self._open[OTHER]:
            found[OTHER] = Totals(self._other)
        return found

    def _make_room(self) -> bool:
        if len(self._named) < self._most:
            return True
        for name in self._named:
            if not self._open[name]:
                self._other.add(self._named.pop(name))
                return True
        return False


@dataclass(slots=True)
class Events:
    """What has happened since the target started."""

    accepted: int = 0
    """Connections."""
    refused: Counter[str] = field(default_factory=Counter)
    """Connections, by the name of the CM status."""
    connects_refused: Counter[str] = field(default_factory=Counter)
    """Connect commands, and what came in their place, by the name of the status."""
    controllers: int = 0
    """Those that were made."""
    reconnects: int = 0
    """Of these, for a host whose controller had ended without a shutdown."""
    keep_alive_timeouts: int = 0
    authenticated: int = 0
    """Queues, each time that they have."""
    authentication_failures: int = 0

    def record(self) -> dict[str, int | dict[str, int]]:
        """By name, as JSON has it; dataclasses.asdict() counts the items of a Counter."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: dict(v) if isinstance(v, Counter) else v for name, v in found.items()}

    def copy(self) -> Events:
        """What another thread may look at."""
        refused, connects = Counter(self.refused), Counter(self.connects_refused)
        return replace(self, refused=refused, connects_refused=connects)


class Tally:
    """Of one target."""

    def __init__(self, hosts: int = 128) -> None:
        self.events = Events()
        self.hosts = Hosts(hosts)
        self._ended: dict[int, Totals] = {}
        self._lost: OrderedDict[tuple[str, str], None] = OrderedDict()

    def connection_refused(self, error: CmRejectError) -> None:
        """A connection request was rejected."""
        self.events.refused[error.status.title] += 1

    def connect_refused(self, status: int) -> None:
        """A Connect, or what came in its place, failed."""
        self.events.connects_refused[status_name(status)] += 1

    def connection_ended(self, reactor: int, name: str | None, stats: Mapping[str, int]) -> None:
        """A queue pair has gone.  name: as Hosts.joined() said, None where none had joined."""
        self._ended.setdefault(reactor, Totals()).add(stats)
        if name is not None:
            self.hosts.ended(name, stats)

    def ended_of(self, reactor: int) -> Totals:
        """What queue pairs of a reactor that have gone counted; a copy."""
        return Totals(self._ended.get(reactor, {}))

    def controller_made(self, controller: Controller) -> None:
        """A host has connected."""
        self.events.controllers += 1
        key = (controller.hostnqn, controller.subsystem.nqn)
        if key in self._lost:
            del self._lost[key]
            self.events.reconnects += 1

    def controller_gone(self, controller: Controller) -> None:
        """Its connection has ended: in order, or it may come back."""
        if controller.csts.shst or controller.subsystem.discovery:
            return
        self._lost[controller.hostnqn, controller.subsystem.nqn] = None
        if len(self._lost) > _LOST_MOST:
            self._lost.popitem(last=False)
