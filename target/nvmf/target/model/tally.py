# SPDX-License-Identifier: BSD-3-Clause
"""Counters kept in Python: events, and the final counters of closed queue pairs.

The engine counts commands, per queue pair and namespace.  No counter decreases while the target
runs, and memory use is bounded, whatever the number of hosts and their names.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nvmf.rpc.results import EventCounts
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
"""The counters of a queue pair (nvmf.engine.Qpair.stats) that only increase."""
OTHER = "other"
"""The name for all hosts that are not counted by name."""
_LOST_MOST = 4096
"""Maximum associations remembered as lost."""


class Totals(dict[str, int]):
    """Sums of COUNTERS."""

    def add(self, stats: Mapping[str, int]) -> None:
        """Add the counters of a queue pair."""
        for name in COUNTERS:
            self[name] = self.get(name, 0) + stats.get(name, 0)


class Hosts:
    """Selects the hosts counted by name: a limited number, connected hosts first.

    A connection keeps its name until it ends, so that counts do not move between names.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: OrderedDict[str, Totals] = OrderedDict()
        """Counts of ended connections by name; the most recent host last."""
        self._open: Counter[str] = Counter()
        self._other = Totals()

    def joined(self, hostnqn: str) -> str:
        """Assign a connection to this host; return the name under which it is counted."""
        # Hosts may have names that are not valid NQNs: one with this name is one of the others.
        if hostnqn == OTHER or (hostnqn not in self._named and not self._make_room()):
            hostnqn = OTHER
        else:
            self._named.setdefault(hostnqn, Totals())
            self._named.move_to_end(hostnqn)
        self._open[hostnqn] += 1
        return hostnqn

    def ended(self, name: str, stats: Mapping[str, int]) -> None:
        """Record the end of a connection of this name, with its final counters."""
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
        self._named.get(name, self._other).add(stats)

    def totals(self) -> dict[str, Totals]:
        """Return a copy of the counts of ended connections by name."""
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
    """Counts of events since the target started."""

    accepted: int = 0
    """Accepted connections."""
    refused: Counter[str] = field(default_factory=Counter)
    """Rejected connections, by the name of the CM status."""
    connects_refused: Counter[str] = field(default_factory=Counter)
    """Failed Connect commands, or other commands in their place, by the name of the status."""
    controllers: int = 0
    """Created controllers."""
    reconnects: int = 0
    """Controllers created for a host whose previous controller ended without a shutdown."""
    keep_alive_timeouts: int = 0
    authenticated: int = 0
    """Successful authentications of queues."""
    authentication_failures: int = 0

    def record(self) -> EventCounts:
        """Return the counts by name, for JSON."""
        return {
            "accepted": self.accepted,
            "refused": dict(self.refused),
            "connects_refused": dict(self.connects_refused),
            "controllers": self.controllers,
            "reconnects": self.reconnects,
            "keep_alive_timeouts": self.keep_alive_timeouts,
            "authenticated": self.authenticated,
            "authentication_failures": self.authentication_failures,
        }

    def copy(self) -> Events:
        """Return a copy for use in a different thread."""
        refused, connects = Counter(self.refused), Counter(self.connects_refused)
        return replace(self, refused=refused, connects_refused=connects)


class Tally:
    """The counters of one target."""

    def __init__(self, hosts: int = 128) -> None:
        self.events = Events()
        self.hosts = Hosts(hosts)
        self._ended: dict[int, Totals] = {}
        self._lost: OrderedDict[tuple[str, str], None] = OrderedDict()

    def connection_refused(self, error: CmRejectError) -> None:
        """Count a rejected connection request."""
        self.events.refused[error.status.title] += 1

    def connect_refused(self, status: int) -> None:
        """Count a failed Connect, or a different command in its place."""
        self.events.connects_refused[status_name(status)] += 1

    def connection_ended(self, reactor: int, name: str | None, stats: Mapping[str, int]) -> None:
        """Count a closed queue pair.  name: from Hosts.joined(); None if no host had joined."""
        self._ended.setdefault(reactor, Totals()).add(stats)
        if name is not None:
            self.hosts.ended(name, stats)

    def ended_of(self, reactor: int) -> Totals:
        """Return a copy of the counts of a reactor's closed queue pairs."""
        return Totals(self._ended.get(reactor, {}))

    def controller_made(self, controller: Controller) -> None:
        """Count a created controller, and whether it is a reconnection."""
        self.events.controllers += 1
        key = (controller.hostnqn, controller.subsystem.nqn)
        if key in self._lost:
            del self._lost[key]
            self.events.reconnects += 1

    def controller_gone(self, controller: Controller) -> None:
        """Remember the association as lost if the controller ended without a shutdown."""
        if controller.csts.shst or controller.subsystem.discovery:
            return
        self._lost[controller.hostnqn, controller.subsystem.nqn] = None
        if len(self._lost) > _LOST_MOST:
            self._lost.popitem(last=False)
