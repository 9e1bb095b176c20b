# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof doctor: checks the machine for problems, for a configuration or in general."""

from __future__ import annotations

from nvmf.config.models import Config
from nvmf.doctor import limits, network, rdma, roce, service, storage
from nvmf.doctor.machine import Finding, Level, Machine

__all__ = ["Finding", "Level", "Machine", "examine"]

_CHECKS = (
    rdma.devices,
    rdma.modules,
    limits.memlock,
    limits.huge_pages,
    limits.memory,
    limits.files,
    limits.processors,
    limits.io_uring,
    limits.socket_buffers,
    network.addresses,
    roce.addresses,
    network.mtu,
    network.firewall,
    network.names,
    network.clock,
    storage.stores,
    service.state,
    service.keys,
    service.metrics,
)


def examine(config: Config | None = None, machine: Machine | None = None) -> list[Finding]:
    """Run all checks; a fact that a check cannot determine is a note.  Changes nothing."""
    machine = machine or Machine()
    found = [finding for check in _CHECKS for finding in check(machine, config)]
    if config is not None:
        found += rdma.ports(machine, config)
    return found
