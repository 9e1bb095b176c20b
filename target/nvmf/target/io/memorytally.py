# SPDX-License-Identifier: BSD-3-Clause
"""Counters of remote memory; none decreases while the target runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nvmf.spec.memory import Refusal, Status
from nvmf.target.io.memorypeer import Peer


class Cause(StrEnum):
    """The causes of the loss of a range."""

    ADMINISTRATOR = "administrator"
    """target_revoke_memory."""
    RIGHT = "right"
    """Configuration, reservation, write protection, or a key that it would need."""
    NAMESPACE = "namespace"
    """Removed, replaced or resized."""


REFUSALS = tuple(
    dict.fromkeys(
        one.name.lower() for kind in (Refusal, Status) for one in kind if one.name != "OK"
    )
)
"""The reasons for refusing a range, with the names of the protocol."""


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The use of a namespace as memory."""

    nqn: str
    nsid: int
    connections: int
    stats: Mapping[str, int]
    """nvmf.engine.MemoryConnection.counts, of all connections so far."""


class MemoryTally:
    """Counts of all connections, including those that have ended."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter(dict.fromkeys(REFUSALS, 0))
        self.revoked: Counter[str] = Counter({str(cause): 0 for cause in Cause})
        self._ended: dict[tuple[str, int], Counter[str]] = {}

    def refuse(self, why: Refusal | Status) -> None:
        """Count a host that got no range."""
        self.refused[why.name.lower()] += 1

    def ended(self, peer: Peer) -> None:
        """Count what a connection has done; call it once, before it is freed."""
        if (key := _key(peer)) is not None:
            self._ended.setdefault(key, Counter()).update(peer.handle.counts)

    def samples(self, peers: Iterable[Peer]) -> list[MemorySample]:
        """Return the namespaces that are, or were, used as memory."""
        totals = {key: Counter(found) for key, found in self._ended.items()}
        numbers: Counter[tuple[str, int]] = Counter()
        for peer in peers:
            if (key := _key(peer)) is not None:
                totals.setdefault(key, Counter()).update(peer.handle.counts)
                numbers[key] += not peer.closing
        return [
            MemorySample(*key, numbers[key], dict(found)) for key, found in sorted(totals.items())
        ]


def _key(peer: Peer) -> tuple[str, int] | None:
    if peer.subsystem is None or peer.namespace is None:
        return None
    return peer.subsystem.nqn, peer.namespace.nsid
