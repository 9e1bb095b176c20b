# SPDX-License-Identifier: BSD-3-Clause
"""Tables of all metrics: name, kind, help, labels and source.

Names follow Prometheus' rules: base units, and _total, which the exposition adds to a counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nvmf.spec.cm import CmStatus
from nvmf.spec.status import Named, Status
from nvmf.target.metrics.sample import HostSample, ReactorSample, Sample

Labels = dict[str, str]
Point = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that are constant while the target runs, and values that are not counters."""

    version: str
    pool_bytes: int
    """Memory of the transfer buffers of all reactors."""
    resources: Mapping[str, int]
    """nvmf.engine.resources()."""


@dataclass(frozen=True, slots=True)
class Source:
    """The data of a scrape; constant."""

    sample: Sample
    facts: Facts


@dataclass(frozen=True, slots=True)
class Family:
    """A metric."""

    name: str
    kind: str
    """counter or gauge."""
    help: str
    points: Callable[[Source], Iterable[Point]]


def _one(value: Callable[[Source], float]) -> Points:
    """Define a metric without labels."""
    return lambda source: [({}, value(source))]


def _namespaces(*parts: tuple[Labels, str]) -> Points:
    """Define one or several counters of each namespace; a label distinguishes these."""

    def points(source: Source) -> Iterator[Point]:
        for one in source.sample.namespaces:
            for label, key in parts:
                if key in one.stats:
                    labels = {"subsystem": one.nqn, "nsid": str(one.nsid), **label}
                    yield labels, one.stats[key]

    return points


Points: TypeAlias = "Callable[[Source], Iterable[Point]]"
"""Reads the values of a metric from a sample."""


def _reactors(
    *parts: tuple[Labels, Callable[[ReactorSample], float]],
) -> Points:
    def points(source: Source) -> Iterator[Point]:
        for index, one in enumerate(source.sample.reactors):
            for label, value in parts:
                yield {"reactor": str(index), **label}, value(one)

    return points


def _hosts(
    *parts: tuple[Labels, Callable[[HostSample], float]],
) -> Points:
    def points(source: Source) -> Iterator[Point]:
        for name, one in source.sample.hosts.items():
            for label, value in parts:
                yield {"host": name, **label}, value(one)

    return points


def _total(name: str) -> Callable[[ReactorSample | HostSample], float]:
    return lambda one: one.totals.get(name, 0)


def _by(label: str, counts: Callable[[Source], Mapping[str, float]]) -> Points:
    return lambda source: [({label: name}, count) for name, count in counts(source).items()]


def _by_status(known: Iterable[Named], counts: Callable[[Source], Mapping[str, float]]) -> Points:
    """Define a counter by the name of a status; the known ones are 0 until they occur.

    A rate or an increase needs the value before the first event.
    """
    zeros: dict[str, float] = dict.fromkeys((status.title for status in known), 0)
    return _by("status", lambda source: {**zeros, **counts(source)})


_READ, _WRITE = {"op": "read"}, {"op": "write"}
_COMMANDS = (
    (_READ, "reads"),
    (_WRITE, "writes"),
    ({"op": "flush"}, "flushes"),
    ({"op": "compare"}, "compares"),
    ({"op": "verify"}, "verifies"),
    ({"op": "write_zeroes"}, "write_zeroes"),
    ({"op": "deallocate"}, "deallocates"),
)
_CONNECT = (
    Status.COMMAND_SEQUENCE_ERROR,
    Status.INCOMPATIBLE_FORMAT,
    Status.CONTROLLER_BUSY,
    Status.CONNECT_INVALID_PARAMETERS,
    Status.CONNECT_INVALID_HOST,
)
"""The statuses of a refused Connect; others are possible for other commands in its place."""
HISTOGRAM = "nvmeof_command_latency_seconds"
HISTOGRAM_HELP = "Latency of reads and writes, from the capsule to the response."

FAMILIES = (
    Family(
        "nvmeof_build_info",
        "gauge",
        "The running version, as labels; always 1.",
        lambda source: [({"version": source.facts.version}, 1)],
    ),
    # ---- namespaces ----
    Family(
        "nvmeof_namespace_commands",
        "counter",
        "Completed commands of a namespace.",
        _namespaces(*_COMMANDS),
    ),
    Family(
        "nvmeof_namespace_bytes",
        "counter",
        "Bytes read from and written to a namespace.",
        _namespaces((_READ, "read_bytes"), (_WRITE, "write_bytes")),
    ),
    Family(
        "nvmeof_namespace_command_seconds",
        "counter",
        "Total latency of the completed reads and writes of a namespace.",
        lambda source: [
            ({"subsystem": one.nqn, "nsid": str(one.nsid), **label}, nanoseconds / 1e9)
            for one in source.sample.namespaces
            for label, nanoseconds in (
                (_READ, one.latency["read_ns"]),
                (_WRITE, one.latency["write_ns"]),
            )
        ],
    ),
    Family(
        "nvmeof_namespace_errors",
        "counter",
        "Failed commands of a namespace.",
        _namespaces(({}, "errors")),
    ),
    Family(
        "nvmeof_namespace_store_errors",
        "counter",
        "Commands that failed because the store of the namespace failed.",
        _namespaces(({}, "media_errors")),
    ),
    Family(
        "nvmeof_namespace_throttled",
        "counter",
        "Commands that waited because of the limits of the namespace.",
        _namespaces(({}, "throttled")),
    ),
    Family(
        "nvmeof_namespace_reservation_conflicts",
        "counter",
        "Commands refused because of a reservation.",
        _namespaces(({}, "reservation_conflicts")),
    ),
    Family(
        "nvmeof_namespace_size_bytes",
        "gauge",
        "Size of a namespace.",
        lambda source: [
            ({"subsystem": one.nqn, "nsid": str(one.nsid)}, one.size)
            for one in source.sample.namespaces
        ],
    ),
    # ---- hosts ----
    Family(
        "nvmeof_host_queues",
        "gauge",
        "Connected queue pairs of a host.",
        _hosts(({}, lambda one: one.queues)),
    ),
    Family(
        "nvmeof_host_controllers",
        "gauge",
        "Controllers of a host.",
        _hosts(({}, lambda one: one.controllers)),
    ),
    Family(
        "nvmeof_host_commands",
        "counter",
        "Commands of a host, on its admin and I/O queues.",
        _hosts(({}, _total("commands"))),
    ),
    Family(
        "nvmeof_host_bytes",
        "counter",
        "Bytes read and written by a host.",
        _hosts((_READ, _total("read_bytes")), (_WRITE, _total("write_bytes"))),
    ),
    Family(
        "nvmeof_host_errors",
        "counter",
        "Failed commands of a host.",
        _hosts(({}, _total("errors"))),
    ),
    Family(
        "nvmeof_host_malformed",
        "counter",
        "Malformed capsules of a host.",
        _hosts(({}, _total("malformed"))),
    ),
    # ---- reactors ----
    Family(
        "nvmeof_reactor_queues",
        "gauge",
        "Queue pairs on a reactor.",
        _reactors(
            ({"queue": "admin"}, lambda one: one.admin_queues),
            ({"queue": "io"}, lambda one: one.io_queues),
        ),
    ),
    Family(
        "nvmeof_reactor_outstanding_commands",
        "gauge",
        "Commands in progress on a reactor.",
        _reactors(({}, lambda one: one.outstanding)),
    ),
    Family(
        "nvmeof_reactor_commands",
        "counter",
        "Commands of the queue pairs of a reactor.",
        _reactors(({}, _total("commands"))),
    ),
    Family(
        "nvmeof_reactor_malformed",
        "counter",
        "Malformed capsules on the queue pairs of a reactor, also before a Connect.",
        _reactors(({}, _total("malformed"))),
    ),
    Family(
        "nvmeof_reactor_buffer_waits",
        "counter",
        "Commands that waited for a transfer buffer of their reactor.",
        _reactors(({}, _total("waited_for_buffer"))),
    ),
    # ---- the target ----
    Family(
        "nvmeof_controllers",
        "gauge",
        "Controllers of a subsystem.",
        _by("subsystem", lambda source: source.sample.controllers),
    ),
    Family(
        "nvmeof_connections",
        "gauge",
        "Queue pairs.",
        _one(lambda source: sum(r.admin_queues + r.io_queues for r in source.sample.reactors)),
    ),
    Family(
        "nvmeof_connections_accepted",
        "counter",
        "Accepted connections.",
        _one(lambda source: source.sample.events.accepted),
    ),
    Family(
        "nvmeof_connections_refused",
        "counter",
        "Refused connections, by the status in the connection manager's reject.",
        _by_status(CmStatus, lambda source: source.sample.events.refused),
    ),
    Family(
        "nvmeof_connects_refused",
        "counter",
        "Commands that failed before or as a Connect, by NVMe status.",
        _by_status(_CONNECT, lambda source: source.sample.events.connects_refused),
    ),
    Family(
        "nvmeof_controllers_created",
        "counter",
        "Controllers created for hosts.",
        _one(lambda source: source.sample.events.controllers),
    ),
    Family(
        "nvmeof_reconnects",
        "counter",
        "Controllers created for hosts that had lost their previous one.",
        _one(lambda source: source.sample.events.reconnects),
    ),
    Family(
        "nvmeof_keep_alive_timeouts",
        "counter",
        "Controllers ended because the Keep Alive Timer expired.",
        _one(lambda source: source.sample.events.keep_alive_timeouts),
    ),
    Family(
        "nvmeof_authentications",
        "counter",
        "Authentications of queues, by result.",
        lambda source: [
            ({"result": "success"}, source.sample.events.authenticated),
            ({"result": "failure"}, source.sample.events.authentication_failures),
        ],
    ),
    Family(
        "nvmeof_faults_active",
        "gauge",
        "Active faults on purpose (target fault), by kind.",
        _by("kind", lambda source: source.sample.faults),
    ),
    Family(
        "nvmeof_fault_hits",
        "counter",
        "Commands that faults on purpose have affected, by kind.",
        _by("kind", lambda source: source.sample.fault_hits),
    ),
    Family(
        "nvmeof_buffer_pool_bytes",
        "gauge",
        "Memory of the transfer buffers of all reactors.",
        _one(lambda source: source.facts.pool_bytes),
    ),
    Family(
        "nvmeof_device_resources",
        "gauge",
        "Objects of the embedded device, as rdma resource show counts them.",
        _by("kind", lambda source: source.facts.resources),
    ),
)
