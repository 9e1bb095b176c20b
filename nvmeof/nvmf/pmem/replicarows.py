# SPDX-License-Identifier: BSD-3-Clause
"""Measurements of replication: the plan, and the rows of the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from nvmf.pmem.figures import Figures


class MirrorRow(TypedDict):
    """A mirror, or the replica that it is compared with, at one size and depth."""

    system: str
    """ "wire of N", the floor; "replica"; or "mirror of N, quorum Q"; with ", write_many" behind if
    each call has as many writes as the depth."""
    size: int
    depth: int
    figures: Figures | None
    """Figures of the writes."""
    reads: Figures | None
    target_cpu_seconds: float | None
    skipped: str
    times_replica: float | None
    """The median latency of writes divided by that of the replica."""
    of_wire: float | None
    """Bytes per second divided by those of the wire to as many targets."""


def new_row(system: str, size: int, depth: int) -> MirrorRow:
    """Return a row without figures."""
    return {
        "system": system,
        "size": size,
        "depth": depth,
        "figures": None,
        "reads": None,
        "target_cpu_seconds": None,
        "skipped": "",
        "times_replica": None,
        "of_wire": None,
    }


class LogRow(TypedDict):
    """A log at one record size and number of tasks that append."""

    system: str
    method: str
    """How its replicas make a write persistent."""
    assumptions_unmet: list[str]
    """Assumptions of the method that a target does not confirm."""
    size: int
    """Bytes of a record."""
    appenders: int
    figures: Figures
    records_per_frame: float
    """Group commit: records that travelled together, on the average."""
    target_cpu_seconds: float | None


class ResyncRow(TypedDict):
    """A mirror with a replica that is resynchronised, at one size and depth of the load beside."""

    system: str
    size: int
    """Bytes of a write of the load."""
    depth: int
    limit: float | None
    """Bytes per second at most that are copied beside the load; None: no limit."""
    slices: int
    """Pairs of slices, one without and one with a resynchronisation."""
    without_iops: float
    """Writes per second while nothing was resynchronised: the median of the slices."""
    during_iops: float
    loss: float
    """The part of the load's writes per second that the resynchronisation took: the median of the
    pairs; below 0: none, and the slices differ by that much."""
    during_bytes_per_second: float
    """Bytes that were copied per second beside the load."""
    idle_bytes_per_second: float
    """Bytes that were copied per second while there was no load."""
    copy_bytes_per_second: float
    """Bytes that the same number of tasks copy per second from one namespace to a different one,
    without a mirror: the floor of the one before."""


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """The measurements to make."""

    urls: tuple[str, ...]
    quorum: int
    sizes: tuple[int, ...]
    depths: tuple[int, ...]
    seconds: float
    read_percent: int = 0
    processes: tuple[int, ...] = ()
    """Process identifiers of the targets, if they are on this machine."""
    hostnqn: str | None = None
    """NQN with which the wire and remote memory are used; default: that of this machine."""
    methods: tuple[str, ...] = ("nvme-fua",)
    """How the log's replicas make a write persistent."""
    force: bool = False
    """Also measure methods whose assumptions a target does not confirm."""


@dataclass(slots=True)
class ReplicaResults:
    """The results of a plan."""

    mirrors: list[MirrorRow] = field(default_factory=list)
    """The wire, a replica and the mirror."""
    logs: list[LogRow] = field(default_factory=list)
    resyncs: list[ResyncRow] = field(default_factory=list)
