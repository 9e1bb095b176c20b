# SPDX-License-Identifier: BSD-3-Clause
"""Limits of the process and of the machine: memory, locked memory, descriptors, CPUs, io_uring."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from nvmf.config.models import Config
from nvmf.config.units import format_size
from nvmf.doctor.machine import Finding, Level, Machine
from nvmf.doctor.rdma import wants_system

_HUGE = 2 << 20
_ROCE_BUFFER = 8 << 20
"""Bytes of a socket's buffer that the embedded RoCEv2 device requests."""
_SPARE_FILES = 256
"""Descriptors that a target needs in addition to its connections."""


def _pool(config: Config) -> int:
    """Return the bytes of the registered transfer buffers."""
    target = config.target
    return target.reactors * target.buffers * target.buffer_size


def memlock(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check RLIMIT_MEMLOCK: memory registered with a system device counts, embedded does not."""
    limit = machine.limit(resource.RLIMIT_MEMLOCK)
    if limit is None:
        yield Finding("memlock", Level.OK, "locked memory is not limited")
        return
    if config is None or not wants_system(config):
        yield Finding(
            "memlock",
            Level.NOTE,
            f"locked memory is limited to {format_size(limit)}; only system devices need more",
        )
        return
    needed = _pool(config)
    level = Level.OK if limit > 2 * needed else Level.PROBLEM
    yield Finding(
        "memlock",
        level,
        f"locked memory is limited to {format_size(limit)}; the transfer buffers alone take"
        f" {format_size(needed)}",
        ""
        if level is Level.OK
        else "ulimit -l unlimited; in a unit LimitMEMLOCK=infinity; or fewer buffers in [target].",
    )


def huge_pages(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check for free huge pages, which transfer buffers use if available."""
    free = machine.memory.get("HugePages_Free", 0)
    size = machine.memory.get("Hugepagesize", _HUGE)
    if config is None:
        return
    needed = -(-_pool(config) // size)
    if free >= needed:
        yield Finding("huge pages", Level.OK, f"{free} huge pages are free; {needed} can be used")
    else:
        yield Finding(
            "huge pages",
            Level.NOTE,
            f"{free} huge pages are free; the buffers could use {needed}",
            f"Optional; sysctl vm.nr_hugepages={needed} saves RDMA hardware address translations.",
        )


def memory(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check whether RAM namespaces fit into the available memory."""
    if config is None:
        return
    asked = _pool(config) + sum(
        namespace.size or 0
        for subsystem in config.subsystems
        for namespace in subsystem.namespaces
        if namespace.store == "ram"
    )
    available = machine.memory.get("MemAvailable")
    if available is None:
        return
    text = f"RAM namespaces and buffers take {format_size(asked)} when full;"
    if asked > available:
        yield Finding(
            "memory",
            Level.WARNING,
            f"{text} only {available / (1 << 30):.1f} GiB are available",
            "Make the ram namespaces smaller, or use files instead.",
        )
    else:
        yield Finding("memory", Level.OK, f"{text} {available / (1 << 30):.1f} GiB are available")


def files(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check RLIMIT_NOFILE: each connection of the embedded device is a socket."""
    limit = machine.limit(resource.RLIMIT_NOFILE)
    if limit is None or config is None:
        return
    needed = config.target.max_queues + _SPARE_FILES
    if limit >= needed:
        yield Finding("descriptors", Level.OK, f"{limit} descriptors are allowed")
    else:
        yield Finding(
            "descriptors",
            Level.WARNING,
            f"{limit} descriptors are allowed; max_queues = {config.target.max_queues}"
            f" connections need {needed}",
            f"ulimit -n {needed}; in a unit LimitNOFILE={needed}; or a lower max_queues.",
        )


def processors(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check the CPUs: a busy reactor polls, so each should have its own."""
    if config is None:
        return
    there = machine.cpus
    named = {cpu for cpu in config.target.cpus or () if cpu >= 0}
    if named - there:
        yield Finding(
            "cpus",
            Level.PROBLEM,
            f"[target] cpus: this process may not run on"
            f" {', '.join(map(str, sorted(named - there)))}; it may run on"
            f" {', '.join(map(str, sorted(there)))}",
            "Choose other CPUs, or omit cpus.",
        )
    elif config.target.reactors > len(there):
        yield Finding(
            "cpus",
            Level.WARNING,
            f"{config.target.reactors} reactors share {len(there)} CPUs: they take turns",
            f"reactors = {max(1, len(there) - 1)} leaves one CPU for other work.",
        )
    else:
        yield Finding("cpus", Level.OK, f"{config.target.reactors} reactors have {len(there)} CPUs")


def io_uring(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check for io_uring, which file I/O uses; threads are used if it is disabled."""
    disabled = machine.read("/proc/sys/kernel/io_uring_disabled")
    if disabled is None or disabled == "0" or (disabled == "1" and machine.root_user):
        return
    if config is None or any(n.store == "file" for s in config.subsystems for n in s.namespaces):
        yield Finding(
            "io_uring",
            Level.WARNING,
            f"kernel.io_uring_disabled = {disabled}: files are served by threads, which is slower",
            "sysctl kernel.io_uring_disabled=0",
        )


def socket_buffers(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check the limits of socket buffers, which a RoCEv2 port without CAP_NET_ADMIN has."""
    if config is None or not any(port.device == "roce" for port in config.ports):
        return
    for name, use in (("rmem_max", "receive"), ("wmem_max", "send")):
        text = machine.read(f"/proc/sys/net/core/{name}")
        if text is None:
            continue
        limit = int(text)
        said = f"the {use} buffers of sockets are limited to {format_size(limit)}"
        if limit >= _ROCE_BUFFER:
            yield Finding("socket buffers", Level.OK, said)
            continue
        yield Finding(
            "socket buffers",
            Level.WARNING,
            f"{said}; RoCEv2 ports request {format_size(_ROCE_BUFFER)}, and have less unless the"
            " target has CAP_NET_ADMIN: writes are slower, and packets that many hosts send at"
            " once may be lost",
            f"sysctl -w net.core.{name}={_ROCE_BUFFER}, and in a file in /etc/sysctl.d.",
        )
