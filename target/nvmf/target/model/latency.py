# SPDX-License-Identifier: BSD-3-Clause
"""How long commands took, as the engine's histograms have it, summed by subsystem.

A namespace that has gone stays in the sum of its subsystem: it never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nvmf.target.model.tally import OTHER

OPERATIONS = ("read", "write")
BUCKETS = 24
"""The first is for less than 1 us, each after it goes to twice of the one before, the last is for
the rest (nvmf.engine.NamespaceLatency)."""
BOUNDS = tuple((1 << index) / 1e6 for index in range(BUCKETS - 1))
"""Seconds that a bucket ends at, but the last."""
_SUBSYSTEMS_MOST = 64
"""Subsystems with histograms of their own; the rest share one."""


@dataclass(slots=True)
class Latency:
    """A histogram."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    nanoseconds: int = 0
    """The sum of all."""

    def add(self, counts: Iterable[int], nanoseconds: int) -> None:
        """Those of another."""
        self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)]
        self.nanoseconds += nanoseconds


Latencies = dict[tuple[str, str], Latency]
"""By the NQN of the subsystem, and the operation."""


class LatencyKeeper:
    """The histograms of subsystems, with those of namespaces that have gone."""

    def __init__(self) -> None:
        self._gone: Latencies = {}
        self._named: set[str] = set()

    def gone(self, nqn: str, latency: Mapping[str, Any]) -> None:
        """A namespace of this subsystem is about to be closed."""
        self._add(self._gone, nqn, latency)

    def totals(self, there: Iterable[tuple[str, Mapping[str, Any]]]) -> Latencies:
        """With those of the namespaces that there are: NQN and nvmf.engine.NamespaceLatency."""
        found: Latencies = {
            key: Latency(list(one.counts), one.nanoseconds) for key, one in self._gone.items()
        }
        for nqn, latency in there:
            self._add(found, nqn, latency)
        return found

    def _add(self, into: Latencies, nqn: str, latency: Mapping[str, Any]) -> None:
        if nqn not in self._named and len(self._named) >= _SUBSYSTEMS_MOST:
            nqn = OTHER
        else:
            self._named.add(nqn)
        for operation in OPERATIONS:
            one = into.setdefault((nqn, operation), Latency())
            one.add(latency[operation], latency[f"{operation}_ns"])
