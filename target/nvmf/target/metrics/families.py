# SPDX-License-Identifier: BSD-3-Clause
"""Every metric there is, as tables: name, kind, what it says, labels, and where it comes from.

Names follow Prometheus' rules: base units, and _total, which the exposition adds to a counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nvmf.target.metrics.sample import Sample

Labels = dict[str, str]
Point = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while the target runs, and what is no counter."""

    version: str
    pool_bytes: int
    """Memory for transfers, of all reactors."""
    resources: Mapping[str, int]
    """nvmf.engine.resources()."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a scrape is made of; nothing in it changes any more."""

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


def _one(value: Callable[[Source], float]) -> Callable[[Source], Iterable[Point]]:
    """A metric without labels."""
    return lambda source: [({}, value(source))]


def _namespaces(
    *parts: tuple[Labels, str],
    rare: tuple[tuple[Labels, str], ...] = (),
) -> Callable[[Source], Iterable[Point]]:
    """A counter of each namespace, or several with a label that tells them apart.

    rare: those that are left out as long as they are zero; a scrape has a line for each.
    """

    def points(source: Source) -> Iterator[Point]:
        for one in source.sample.namespaces:
            for label, key in parts:
                if key in one.stats:
                    labels = {"subsystem": one.nqn, "nsid": str(one.nsid), **label}
                    yield labels, one.stats[key]
            for label, key in rare:
                if one.stats.get(key):
                    yield {"subsystem": one.nqn, "nsid": str(one.nsid), **label}, one.stats[key]

    return points


def _reactors(*parts: tuple[Labels, Callable[[Any], float]]) -> Callable[[Source], Iterable[Point]]:
    def points(source: Source) -> Iterator[Point]:
        for index, one in enumerate(source.sample.reactors):
            for label, value in parts:
                yield {"reactor": str(index), **label}, value(one)

    return points


def _hosts(*parts: tuple[Labels, Callable[[Any], float]]) -> Callable[[Source], Iterable[Point]]:
    def points(source: Source) -> Iterator[Point]:
        for name, one in source.sample.hosts.items():
            for label, value in parts:
                yield {"host": name, **label}, value(one)

    return points


def _total(name: str) -> Callable[[Any], float]:
    return lambda one: one.totals.get(name, 0)


def _by(label: str, counts: Callable[[Source], Mapping[str, float]]) -> Any:
    return lambda source: [({label: name}, count) for name, count in counts(source).items()]


_READ, _WRITE = {"op": "read"}, {"op": "write"}
_RARE = (
    ({"op": "flush"}, "flushes"),
    ({"op": "compare"}, "compares"),
    ({"op": "verify"}, "verifies"),
    ({"op": "write_zeroes"}, "write_zeroes"),
    ({"op": "deallocate"}, "deallocates"),
)
HISTOGRAM = "nvmeof_command_latency_seconds"
HISTOGRAM_HELP = "How long reads and writes took, from the capsule to the response."

FAMILIES = (
    Family(
        "nvmeof_build_info",
        "gauge",
        "The version that runs; always 1.",
        lambda source: [({"version": source.facts.version}, 1)],
    ),
    # ---- namespaces ----
    Family(
        "nvmeof_namespace_commands",
        "counter",
        "Commands that a namespace has completed; of the rare kinds once there was one.",
        _namespaces((_READ, "reads"), (_WRITE, "writes"), rare=_RARE),
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
        "Time that the completed reads and writes of a namespace took, in sum.",
        lambda source: [
            ({"subsystem": one.nqn, "nsid": str(one.nsid), **label}, one.latency[name] / 1e9)
            for one in source.sample.namespaces
            for label, name in ((_READ, "read_ns"), (_WRITE, "write_ns"))
        ],
    ),
    Family(
        "nvmeof_namespace_errors",
        "counter",
        "Commands of a namespace that failed.",
        _namespaces(({}, "errors")),
    ),
    Family(
        "nvmeof_namespace_store_errors",
        "counter",
        "Commands that failed because what stands behind the namespace did.",
        _namespaces(({}, "media_errors")),
    ),
    Family(
        "nvmeof_namespace_throttled",
        "counter",
        "Commands that waited because the namespace is limited, once there was one.",
        _namespaces(rare=(({}, "throttled"),)),
    ),
    Family(
        "nvmeof_namespace_reservation_conflicts",
        "counter",
        "Commands that a reservation kept from running, once there was one.",
        _namespaces(rare=(({}, "reservation_conflicts"),)),
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
        "Queue pairs that a host has connected.",
        _hosts(({}, lambda one: one.queues)),
    ),
    Family(
        "nvmeof_host_controllers",
        "gauge",
        "Controllers that a host has.",
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
        "Bytes that a host has read and written.",
        _hosts((_READ, _total("read_bytes")), (_WRITE, _total("write_bytes"))),
    ),
    Family(
        "nvmeof_host_errors",
        "counter",
        "Commands of a host that failed.",
        _hosts(({}, _total("errors"))),
    ),
    Family(
        "nvmeof_host_malformed",
        "counter",
        "Capsules of a host that broke the rules of the transport.",
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
        "Commands that are under way on a reactor.",
        _reactors(({}, lambda one: one.outstanding)),
    ),
    Family(
        "nvmeof_reactor_commands",
        "counter",
        "Commands of the queue pairs of a reactor.",
        _reactors(({}, _total("commands"))),
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
        "Queue pairs there are.",
        _one(lambda source: sum(r.admin_queues + r.io_queues for r in source.sample.reactors)),
    ),
    Family(
        "nvmeof_connections_accepted",
        "counter",
        "Connections that were accepted.",
        _one(lambda source: source.sample.events.accepted),
    ),
    Family(
        "nvmeof_connections_refused",
        "counter",
        "Connections that were refused, by the status of the connection manager's reject.",
        _by("status", lambda source: source.sample.events.refused),
    ),
    Family(
        "nvmeof_connects_refused",
        "counter",
        "Commands that failed in the place of a Connect, by NVMe status.",
        _by("status", lambda source: source.sample.events.connects_refused),
    ),
    Family(
        "nvmeof_controllers_created",
        "counter",
        "Controllers that were made for hosts.",
        _one(lambda source: source.sample.events.controllers),
    ),
    Family(
        "nvmeof_reconnects",
        "counter",
        "Controllers for hosts that had lost theirs.",
        _one(lambda source: source.sample.events.reconnects),
    ),
    Family(
        "nvmeof_keep_alive_timeouts",
        "counter",
        "Controllers that ended because nothing was heard of their host.",
        _one(lambda source: source.sample.events.keep_alive_timeouts),
    ),
    Family(
        "nvmeof_authentications",
        "counter",
        "Authentications of queues, by what came of them.",
        lambda source: [
            ({"result": "success"}, source.sample.events.authenticated),
            ({"result": "failure"}, source.sample.events.authentication_failures),
        ],
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
