# SPDX-License-Identifier: BSD-3-Clause
"""RDMA devices and their kernel modules."""

from __future__ import annotations

from collections.abc import Iterator

from nvmf.config.models import Config
from nvmf.doctor.machine import Finding, Level, Machine

_EVERYWHERE = {"0.0.0.0", "::"}


def wants_system(config: Config | None) -> bool:
    """Return whether a port requires a system device."""
    return config is not None and any(port.device == "system" for port in config.ports)


def _needs_system(config: Config | None) -> bool:
    """Return whether a port requires a system device now: with hotplug, the target waits for it."""
    return config is not None and any(
        port.device == "system" and not port.hotplug for port in config.ports
    )


def devices(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """List the RDMA devices and check whether their ports are up."""
    found = machine.names("/sys/class/infiniband")
    if not found:
        yield Finding(
            "devices",
            Level.PROBLEM if _needs_system(config) else Level.NOTE,
            "there is no RDMA device; the embedded device (iwarp) does not need one",
            "For a kernel device on any network card: modprobe rdma_rxe; rdma link add rxe0"
            ' type rxe netdev NAME. Or use device = "iwarp".',
        )
        return
    for device in found:
        for port in machine.names(f"/sys/class/infiniband/{device}/ports"):
            state = machine.read(f"/sys/class/infiniband/{device}/ports/{port}/state") or "unknown"
            netdev = machine.rdma_links.get(device)
            on = f" on {netdev}" if netdev else ""
            if "ACTIVE" in state:
                yield Finding("devices", Level.OK, f"RDMA device {device} port {port}{on} is up")
            else:
                yield Finding(
                    "devices",
                    Level.WARNING,
                    f"RDMA device {device} port {port}{on} is not up: its state is {state}",
                    f"Bring the link up: ip link set {netdev} up; check the cable."
                    if netdev
                    else "Check the cable, and on InfiniBand the subnet manager.",
                )


def ports(machine: Machine, config: Config) -> Iterator[Finding]:
    """Check that the address of every system port is on an RDMA device."""
    for port in config.ports:
        if port.device != "system" or port.traddr in _EVERYWHERE:
            continue
        interface = machine.interface_of(port.traddr)
        if interface and machine.rdma_links and interface.name not in machine.rdma_links.values():
            yield Finding(
                "devices",
                Level.PROBLEM,
                f"port {port.traddr} requires a system device, but its interface"
                f" {interface.name} has no RDMA device",
                f"rdma link add rxe0 type rxe netdev {interface.name}; or an address of "
                f'{", ".join(sorted(set(machine.rdma_links.values())))}; or device = "iwarp".',
            )


def modules(machine: Machine, config: Config | None) -> Iterator[Finding]:
    """Check the kernel modules for system devices and for the kernel's initiator."""
    needed = wants_system(config) or bool(machine.names("/sys/class/infiniband"))
    for module, node, what in (
        ("ib_uverbs", "/dev/infiniband", "verbs in userspace"),
        ("rdma_ucm", "/dev/infiniband/rdma_cm", "connections from userspace"),
    ):
        if module in machine.modules and machine.path(node).exists():
            yield Finding("modules", Level.OK, f"{module} is loaded: {what}")
        elif needed:
            yield Finding(
                "modules",
                Level.PROBLEM if _needs_system(config) else Level.WARNING,
                f"{module} is not loaded, or {node} is missing: no {what}",
                f"modprobe {module}; packages rdma-core and ibverbs-providers load it at boot.",
            )
    if "nvme_rdma" in machine.modules and machine.path("/dev/nvme-fabrics").exists():
        yield Finding("modules", Level.OK, "nvme_rdma is loaded: nvmeof connect can be used")
    else:
        yield Finding(
            "modules",
            Level.NOTE,
            "nvme_rdma is not loaded: nvmeof connect (the kernel's initiator) loads it if the"
            " kernel has it; the Python client, fio and the target do not need it",
        )
