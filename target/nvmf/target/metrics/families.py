# SPDX-License-Identifier: BSD-3-Clause
"""Tables of all metrics: name, kind, help, labels and source.

Names follow Prometheus' rules: base units, and _total, which the exposition adds to a counter.
"""

from __future__ import annotations

from nvmf.spec.cm import CmStatus
from nvmf.spec.status import Status
from nvmf.target.metrics.memory import MEMORY
from nvmf.target.metrics.mirror import MIRROR
from nvmf.target.metrics.points import (
    READ,
    WRITE,
    Facts,
    Family,
    Labels,
    Point,
    Source,
    by,
    by_status,
    hosts,
    namespaces,
    one,
    reactors,
    total,
)

__all__ = [
    "FAMILIES",
    "HISTOGRAM",
    "HISTOGRAM_HELP",
    "Facts",
    "Family",
    "Labels",
    "Point",
    "Source",
]

_COMMANDS = (
    (READ, "reads"),
    (WRITE, "writes"),
    ({"op": "flush"}, "flushes"),
    ({"op": "compare"}, "compares"),
    ({"op": "verify"}, "verifies"),
    ({"op": "write_zeroes"}, "write_zeroes"),
    ({"op": "deallocate"}, "deallocates"),
    ({"op": "copy"}, "copies"),
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
        namespaces(*_COMMANDS),
    ),
    Family(
        "nvmeof_namespace_bytes",
        "counter",
        "Bytes read from and written to a namespace.",
        namespaces((READ, "read_bytes"), (WRITE, "write_bytes")),
    ),
    Family(
        "nvmeof_namespace_command_seconds",
        "counter",
        "Total latency of the completed reads and writes of a namespace.",
        lambda source: [
            ({"subsystem": one.nqn, "nsid": str(one.nsid), **label}, nanoseconds / 1e9)
            for one in source.sample.namespaces
            for label, nanoseconds in (
                (READ, one.latency["read_ns"]),
                (WRITE, one.latency["write_ns"]),
            )
        ],
    ),
    Family(
        "nvmeof_namespace_errors",
        "counter",
        "Failed commands of a namespace.",
        namespaces(({}, "errors")),
    ),
    Family(
        "nvmeof_namespace_store_errors",
        "counter",
        "Commands that failed because the store of the namespace failed.",
        namespaces(({}, "media_errors")),
    ),
    Family(
        "nvmeof_namespace_throttled",
        "counter",
        "Commands that waited because of the limits of the namespace.",
        namespaces(({}, "throttled")),
    ),
    Family(
        "nvmeof_namespace_reservation_conflicts",
        "counter",
        "Commands refused because of a reservation.",
        namespaces(({}, "reservation_conflicts")),
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
        hosts(({}, lambda one: one.queues)),
    ),
    Family(
        "nvmeof_host_controllers",
        "gauge",
        "Controllers of a host.",
        hosts(({}, lambda one: one.controllers)),
    ),
    Family(
        "nvmeof_host_commands",
        "counter",
        "Commands of a host, on its admin and I/O queues.",
        hosts(({}, total("commands"))),
    ),
    Family(
        "nvmeof_host_bytes",
        "counter",
        "Bytes read and written by a host.",
        hosts((READ, total("read_bytes")), (WRITE, total("write_bytes"))),
    ),
    Family(
        "nvmeof_host_errors",
        "counter",
        "Failed commands of a host.",
        hosts(({}, total("errors"))),
    ),
    Family(
        "nvmeof_host_malformed",
        "counter",
        "Malformed capsules of a host.",
        hosts(({}, total("malformed"))),
    ),
    # ---- reactors ----
    Family(
        "nvmeof_reactor_queues",
        "gauge",
        "Queue pairs on a reactor.",
        reactors(
            ({"queue": "admin"}, lambda one: one.admin_queues),
            ({"queue": "io"}, lambda one: one.io_queues),
        ),
    ),
    Family(
        "nvmeof_reactor_outstanding_commands",
        "gauge",
        "Commands in progress on a reactor.",
        reactors(({}, lambda one: one.outstanding)),
    ),
    Family(
        "nvmeof_reactor_commands",
        "counter",
        "Commands of the queue pairs of a reactor.",
        reactors(({}, total("commands"))),
    ),
    Family(
        "nvmeof_reactor_malformed",
        "counter",
        "Malformed capsules on the queue pairs of a reactor, also before a Connect.",
        reactors(({}, total("malformed"))),
    ),
    Family(
        "nvmeof_reactor_buffer_waits",
        "counter",
        "Commands that waited for a transfer buffer of their reactor.",
        reactors(({}, total("waited_for_buffer"))),
    ),
    # ---- the target ----
    Family(
        "nvmeof_controllers",
        "gauge",
        "Controllers of a subsystem.",
        by("subsystem", lambda source: source.sample.controllers),
    ),
    Family(
        "nvmeof_connections",
        "gauge",
        "Queue pairs.",
        one(lambda source: sum(r.admin_queues + r.io_queues for r in source.sample.reactors)),
    ),
    Family(
        "nvmeof_connections_accepted",
        "counter",
        "Accepted connections.",
        one(lambda source: source.sample.events.accepted),
    ),
    Family(
        "nvmeof_connections_refused",
        "counter",
        "Refused connections, by the status in the connection manager's reject.",
        by_status(CmStatus, lambda source: source.sample.events.refused),
    ),
    Family(
        "nvmeof_connects_refused",
        "counter",
        "Commands that failed before or as a Connect, by NVMe status.",
        by_status(_CONNECT, lambda source: source.sample.events.connects_refused),
    ),
    Family(
        "nvmeof_controllers_created",
        "counter",
        "Controllers created for hosts.",
        one(lambda source: source.sample.events.controllers),
    ),
    Family(
        "nvmeof_reconnects",
        "counter",
        "Controllers created for hosts that had lost their previous one.",
        one(lambda source: source.sample.events.reconnects),
    ),
    Family(
        "nvmeof_keep_alive_timeouts",
        "counter",
        "Controllers ended because the Keep Alive Timer expired.",
        one(lambda source: source.sample.events.keep_alive_timeouts),
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
        by("kind", lambda source: source.sample.faults),
    ),
    Family(
        "nvmeof_fault_hits",
        "counter",
        "Commands that faults on purpose have affected, by kind.",
        by("kind", lambda source: source.sample.fault_hits),
    ),
    *MEMORY,
    *MIRROR,
    Family(
        "nvmeof_buffer_pool_bytes",
        "gauge",
        "Memory of the transfer buffers of all reactors.",
        one(lambda source: source.facts.pool_bytes),
    ),
    Family(
        "nvmeof_device_resources",
        "gauge",
        "Objects of the embedded device, as rdma resource show counts them.",
        by("kind", lambda source: source.facts.resources),
    ),
)
