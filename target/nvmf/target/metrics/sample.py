# SPDX-License-Identifier: BSD-3-Clause
"""All counters of a target at one moment, read on the loop's thread while the engine runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nvmf.config.models import Config
from nvmf.rpc.results import Latency, Mirror
from nvmf.target.commands.core import Core
from nvmf.target.io.connection import Connection
from nvmf.target.io.injections import Injections
from nvmf.target.io.memory import Memory
from nvmf.target.io.memorytally import MemorySample
from nvmf.target.io.storage import Storage
from nvmf.target.model.latency import Latencies
from nvmf.target.model.tally import Events, Totals


class Measured(Protocol):
    """A running target (nvmf.target.service.server.Server)."""

    @property
    def config(self) -> Config: ...
    @property
    def core(self) -> Core: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def injections(self) -> Injections: ...
    @property
    def reactors(self) -> int: ...
    @property
    def memory(self) -> Memory: ...
    def open_connections(self) -> Sequence[Connection]: ...


@dataclass(slots=True)
class ReactorSample:
    """A reactor: its present load, and the counters of its queue pairs."""

    totals: Totals
    admin_queues: int = 0
    io_queues: int = 0
    outstanding: int = 0
    """Commands."""


@dataclass(slots=True)
class HostSample:
    """A host, or all hosts without separate counters."""

    totals: Totals
    queues: int = 0
    controllers: int = 0


@dataclass(frozen=True, slots=True)
class NamespaceSample:
    """A namespace."""

    nqn: str
    nsid: int
    size: int
    """Bytes."""
    stats: Mapping[str, int]
    """nvmf.engine.Namespace.stats."""
    latency: Latency
    """nvmf.engine.NamespaceLatency."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """A queue pair after its Connect."""

    connection: Connection
    stats: Mapping[str, int]
    """nvmf.engine.Qpair.stats."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of the whole target."""

    seconds: float
    """Time of a monotonic clock."""
    reactors: list[ReactorSample]
    hosts: dict[str, HostSample]
    namespaces: list[NamespaceSample]
    queues: list[QueueSample]
    events: Events
    latencies: Latencies
    controllers: dict[str, int]
    """Numbers by the NQN of the subsystem."""
    faults: dict[str, int]
    """Numbers of active faults on purpose, by kind."""
    fault_hits: dict[str, int]
    """Commands that faults on purpose have affected, by kind."""
    memory: list[MemorySample]
    memory_refused: dict[str, int]
    """Hosts that got no range of memory, by reason."""
    memory_revoked: dict[str, int]
    """Hosts that lost theirs, by cause."""
    mirrors: list[Mirror]


def take(server: Measured) -> Sample:
    """Sample all counters."""
    core = server.core
    tally = core.tally
    reactors = [ReactorSample(tally.ended_of(index)) for index in range(server.reactors)]
    hosts = {name: HostSample(totals) for name, totals in tally.hosts.totals().items()}
    queues: list[QueueSample] = []
    for connection in server.open_connections():
        stats, queue = connection.qpair.stats, connection.queue
        reactor = reactors[connection.reactor]
        reactor.totals.add(stats)
        reactor.outstanding += stats.get("outstanding", 0)
        if queue.qid:
            reactor.io_queues += 1
        else:
            reactor.admin_queues += 1
        if connection.host is not None:
            host = hosts[connection.host]
            host.totals.add(stats)
            host.queues += 1
            host.controllers += not queue.qid
            queues.append(QueueSample(connection, stats))
    namespaces = [
        NamespaceSample(
            subsystem.nqn, nsid, namespace.store.size, namespace.stats(), namespace.engine.latency()
        )
        for subsystem in core.subsystems.values()
        for nsid, namespace in sorted(subsystem.namespaces.items())
    ]
    controllers = {s.nqn: len(s.controllers) for s in core.subsystems.values()}
    return Sample(
        time.monotonic(),
        reactors,
        hosts,
        namespaces,
        queues,
        tally.events.copy(),
        server.storage.latencies(),
        controllers,
        dict(Counter(one.config.kind for one in server.injections.active())),
        server.injections.hits(),
        server.memory.samples(),
        dict(server.memory.tally.refused),
        dict(server.memory.tally.revoked),
        server.storage.mirrors(),
    )
