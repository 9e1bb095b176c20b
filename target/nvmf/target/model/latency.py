# SPDX-License-Identifier: BSD-3-Clause
"""Latency of commands: the engine's histograms, summed by subsystem.

The counts of removed namespaces stay in the sum of their subsystem, which never decreases.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nvmf.rpc import results
from nvmf.target.model.tally import OTHER

OPERATIONS = ("read", "write")
BUCKETS = 24
"""The first bucket is for less than 1 us, each following one ends at twice the previous bound, and
the last is for the rest (nvmf.engine.NamespaceLatency)."""
BOUNDS = tuple((1 << index) / 1e6 for index in range(BUCKETS - 1))
"""Upper bounds of the buckets in seconds, without the last."""
_SUBSYSTEMS_MOST = 64
"""Maximum subsystems with their own histograms; the rest share one."""


@dataclass(slots=True)
class Latency:
    """A histogram."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    nanoseconds: int = 0
    """Sum of all latencies."""

    def add(self, counts: Iterable[int], nanoseconds: int) -> None:
        """Add a different histogram."""
        self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)]
        self.nanoseconds += nanoseconds


Latencies = dict[tuple[str, str], Latency]
"""Histograms by subsystem NQN and operation."""


class LatencyKeeper:
    """The histograms of subsystems, including those of removed namespaces."""

    def __init__(self) -> None:
        self._gone: Latencies = {}
        self._named: set[str] = set()

    def gone(self, nqn: str, latency: results.Latency) -> None:
        """Keep the histograms of a namespace that is about to be closed."""
        self._add(self._gone, nqn, latency)

    def totals(self, there: Iterable[tuple[str, results.Latency]]) -> Latencies:
        """Return the sums with those of present namespaces (NQN, nvmf.engine.NamespaceLatency)."""
        found: Latencies = {
            key: Latency(list(one.counts), one.nanoseconds) for key, one in self._gone.items()
        }
        for nqn, latency in there:
            self._add(found, nqn, latency)
        return found

    def _add(self, into: Latencies, nqn: str, latency: results.Latency) -> None:
        if nqn not in self._named and len(self._named) >= _SUBSYSTEMS_MOST:
            nqn = OTHER
        else:
            self._named.add(nqn)
        for operation, counts, nanoseconds in (
            ("read", latency["read"], latency["read_ns"]),
            ("write", latency["write"], latency["write_ns"]),
        ):
            into.setdefault((nqn, operation), Latency()).add(counts, nanoseconds)
