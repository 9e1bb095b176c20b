# SPDX-License-Identifier: BSD-3-Clause
"""Whether a history of reads and writes of one block is linearizable.

Every write has a unique value, so that a read identifies its write.  Then the algorithm of Gibbons
and Korach ("Testing shared memories", SIAM J. Comput. 26(4), 1997) decides it in O(n log n): the
operations of one value form a cluster, which must be ordered as a whole.  Its zone lies between the
first end and the last start of its operations.  If the end comes first, some operation of the value
takes effect at the end or before and a different one at the start or after, so the block has the
value in between: no two such (forward) zones may overlap, and no zone of the other kind (backward)
may lie within one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a write, from its call to its return.

    A write that never returned, or whose outcome is unknown, has an infinite end.
    """

    value: Hashable
    start: float
    end: float
    write: bool


def violation(history: Iterable[Access], initial: Hashable = None) -> str | None:
    """Return why a history is not linearizable; None if it is.

    Values of writes must be different, and not the initial one.
    """
    first = Access(initial, -inf, -inf, True)
    clusters: dict[Hashable, list[Access]] = {initial: [first]}
    reads = []
    for access in history:
        if not access.write:
            reads.append(access)
        elif clusters.setdefault(access.value, [access]) != [access]:
            raise ValueError(f"the value {access.value!r} is written twice")
    for read in reads:
        cluster = clusters.get(read.value)
        if cluster is None:
            return f"a read returned {read.value!r}, which was never written"
        if read.end < cluster[0].start:
            return f"a read returned {read.value!r} before it was written"
        cluster.append(read)
    forward: list[tuple[float, float, Hashable]] = []
    backward: list[tuple[float, float, Hashable]] = []
    for value, cluster in clusters.items():
        if len(cluster) == 1 and cluster[0].end == inf:
            continue  # it never took effect
        end = min(access.end for access in cluster)
        start = max(access.start for access in cluster)
        if end < start:
            forward.append((end, start, value))
        else:
            backward.append((start, end, value))
    forward.sort(key=lambda zone: zone[:2])
    for before, after in pairwise(forward):
        if after[0] < before[1]:
            return f"{before[2]!r} and {after[2]!r} were both there at the same time"
    return _inside(forward, backward)


def _inside(
    forward: list[tuple[float, float, Hashable]], backward: list[tuple[float, float, Hashable]]
) -> str | None:
    backward.sort(key=lambda zone: zone[0])
    at = 0
    for start, end, value in backward:
        while at < len(forward) and forward[at][1] <= start:
            at += 1
        if at < len(forward) and forward[at][0] < start and end < forward[at][1]:
            return f"{value!r} was written and seen only while {forward[at][2]!r} was there"
    return None
