# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of remote memory."""

from __future__ import annotations

from nvmf.target.metrics.points import READ, WRITE, Family, by, memory

MEMORY = (
    Family(
        "nvmeof_memory_connections",
        "gauge",
        "Hosts that use a namespace as memory, by connection.",
        memory(({}, lambda one: one.connections)),
    ),
    Family(
        "nvmeof_memory_bytes",
        "counter",
        "Bytes that hosts have written and read as memory, by RDMA; the embedded iWARP device "
        "counts them, others do not.",
        memory(
            (READ, lambda one: one.stats.get("read_bytes")),
            (WRITE, lambda one: one.stats.get("written_bytes")),
        ),
    ),
    Family(
        "nvmeof_memory_persists",
        "counter",
        "Requests of hosts to make a range of memory persistent.",
        memory(({}, lambda one: one.stats["persists"])),
    ),
    Family(
        "nvmeof_memory_persisted_bytes",
        "counter",
        "Bytes of the ranges of these requests.",
        memory(({}, lambda one: one.stats["persisted_bytes"])),
    ),
    Family(
        "nvmeof_memory_persist_errors",
        "counter",
        "Such requests that failed.",
        memory(({}, lambda one: one.stats["errors"])),
    ),
    Family(
        "nvmeof_memory_refused",
        "counter",
        "Hosts that got no memory, by reason.",
        by("reason", lambda source: source.sample.memory_refused),
    ),
    Family(
        "nvmeof_memory_revoked",
        "counter",
        "Hosts that lost their memory, by cause.",
        by("cause", lambda source: source.sample.memory_revoked),
    ),
)
