# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof list` and `list-subsys`: the kernel's NVMe block devices, subsystems and controllers.

The JSON output has the same names as nvme-cli's.
"""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, add_command
from nvmf.cli.kernel.words import format_text, path_fields
from nvmf.cli.output import print_json, print_table, size_text
from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.ioctl import Device
from nvmf.initiator.kernel.sysfs import ControllerInfo, NamespaceInfo, SubsystemInfo
from nvmf.initiator.kernel.system import System
from nvmf.spec import commands
from nvmf.spec.identify import IDENTIFY_SIZE, IdentifyNamespace
from nvmf.spec.opcodes import Cns


def add_commands(subparsers: Subparsers) -> None:
    """Add list and list-subsys."""
    add_command(
        subparsers,
        "list",
        list_blocks,
        "list the NVMe block devices of this machine",
        "Without root, the usage is shown only from Linux 6.8 on, where all users can read it.",
        examples=("sudo nvmeof list", "sudo nvmeof list -o json"),
    )
    parser = add_command(
        subparsers,
        "list-subsys",
        list_subsystems,
        "list the NVMe subsystems that the kernel is connected to, and their controllers",
        examples=("nvmeof list-subsys", "nvmeof list-subsys -n nqn.2026-01.example:disk"),
    )
    parser.add_argument("-n", "--nqn", metavar="NQN", help="only this subsystem")


# ---- list ----


def list_blocks(args: argparse.Namespace) -> int:
    """List the block devices."""
    system = System()
    found = [
        (subsystem, block, _used(subsystem, block))
        for subsystem in sysfs.subsystems(system)
        for block in subsystem.namespaces
    ]
    if args.output_format == "json":
        print_json({"Devices": [_device(s, block, used) for s, block, used in found]})
        return EXIT_OK
    rows = [
        (
            block.path,
            _generic(block),
            subsystem.serial,
            subsystem.model,
            block.nsid,
            f"{'-' if used is None else size_text(used)} / {size_text(block.size)}",
            format_text(block),
            subsystem.firmware,
        )
        for subsystem, block, used in found
    ]
    print_table(("Node", "Generic", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev"), rows)
    return EXIT_OK


def _device(subsystem: SubsystemInfo, block: NamespaceInfo, used: int | None) -> dict[str, object]:
    return {
        "NameSpace": block.nsid,
        "DevicePath": block.path,
        "GenericPath": _generic(block),
        "Firmware": subsystem.firmware,
        "ModelNumber": subsystem.model,
        "SerialNumber": subsystem.serial,
        "UsedBytes": used,
        "MaximumLBA": block.size // block.block_size,
        "PhysicalSize": block.size,
        "SectorSize": block.block_size,
        "SubsystemNQN": subsystem.nqn,
        "UUID": block.uuid,
    }


def _generic(block: NamespaceInfo) -> str:
    """Return the character device of a namespace, such as /dev/ng0n1 for /dev/nvme0n1."""
    return block.path.replace("/nvme", "/ng", 1)


def _used(subsystem: SubsystemInfo, block: NamespaceInfo) -> int | None:
    """Return the allocated bytes (NUSE), from sysfs or else from a controller."""
    if block.used is not None:
        return block.used
    for one in subsystem.controllers:
        if one.is_live:
            try:
                with Device(one.path) as device:
                    sqe = commands.identify(Cns.NAMESPACE, block.nsid)
                    data, _ = device.admin(sqe, "Identify (namespace)", IDENTIFY_SIZE)
            except (KernelError, NvmeError, ConnectionLost):
                continue
            return IdentifyNamespace.decode(data).nuse * block.block_size
    return None


# ---- list-subsys ----


def list_subsystems(args: argparse.Namespace) -> int:
    """List the subsystems, grouped by the identity of this host."""
    found = [s for s in sysfs.subsystems(System()) if args.nqn in (None, s.nqn)]
    if args.output_format == "json":
        hosts: dict[tuple[str, str], list[SubsystemInfo]] = {}
        for subsystem in found:
            hosts.setdefault(_host(subsystem), []).append(subsystem)
        print_json(
            [
                {
                    "HostNQN": nqn or None,
                    "HostID": identifier or None,
                    "Subsystems": [_subsystem(one) for one in members],
                }
                for (nqn, identifier), members in hosts.items()
            ]
        )
        return EXIT_OK
    for subsystem in found:
        print(f"{subsystem.name} - NQN={subsystem.nqn}")
        for label, value in zip(("hostnqn", "hostid"), _host(subsystem), strict=True):
            if value:
                print(f"{'':{len(subsystem.name)}}   {label}={value}")
        print("\\")
        for one in subsystem.controllers:
            print(f" +- {one.name} {one.transport} {one.address} {_state(one)}")
    return EXIT_OK


def _host(subsystem: SubsystemInfo) -> tuple[str, str]:
    for one in subsystem.controllers:
        return one.hostnqn or "", one.hostid or ""
    return "", ""


def _state(one: ControllerInfo) -> str:
    queues = max((one.queue_count or 1) - 1, 0)
    return f"{one.state}, {queues} I/O queue{'' if queues == 1 else 's'}"


def _subsystem(subsystem: SubsystemInfo) -> dict[str, object]:
    return {
        "Name": subsystem.name,
        "NQN": subsystem.nqn,
        "IOPolicy": subsystem.policy,
        "Paths": [path_fields(one) for one in subsystem.controllers],
        "Namespaces": [
            {"NSID": b.nsid, "DevicePath": b.path, "PhysicalSize": b.size}
            for b in subsystem.namespaces
        ],
    }
