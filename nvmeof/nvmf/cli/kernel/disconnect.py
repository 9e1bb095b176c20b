# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof disconnect`, `disconnect-all`: disconnect the kernel; `reset`, for its controllers."""

from __future__ import annotations

import argparse
from pathlib import PurePath

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, add_command
from nvmf.cli.output import print_json
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.sysfs import ControllerInfo
from nvmf.initiator.kernel.system import System


def add_commands(subparsers: Subparsers) -> None:
    """Add disconnect and disconnect-all."""
    parser = add_command(
        subparsers,
        "disconnect",
        disconnect,
        "disconnect the kernel from a subsystem",
        "Unmount file systems first: data not written back yet are lost.",
        examples=(
            "sudo nvmeof disconnect -n nqn.2026-01.example:disk",
            "sudo nvmeof disconnect -d nvme1,nvme2",
        ),
    )
    parser.add_argument("-n", "--nqn", metavar="NQN", help="all controllers of this subsystem")
    parser.add_argument(
        "-d", "--device", metavar="DEVICE", help="controllers by device name: nvme0, or a list"
    )
    parser = add_command(
        subparsers,
        "disconnect-all",
        disconnect_all,
        "disconnect the kernel from all fabrics subsystems",
        examples=("sudo nvmeof disconnect-all --transport rdma",),
    )
    parser.add_argument(
        "-t",
        "--transport",
        metavar="TRANSPORT",
        help="only controllers with this transport, such as rdma",
    )


def disconnect(args: argparse.Namespace) -> int:
    """Disconnect by NQN or by device."""
    if bool(args.nqn) == bool(args.device):
        raise UsageError("specify the subsystem with -n, or the controller with -d")
    system = System()
    there = sysfs.controllers(system)
    if args.nqn:
        found = [one for one in there if one.subsysnqn == args.nqn and one.is_fabrics]
        if not found:
            raise CliError(f"the kernel is not connected to {args.nqn}; see nvmeof list-subsys")
    else:
        found = [_by_name(name, there, system) for name in args.device.split(",")]
    return _disconnect(found, args.output_format == "json")


def reset(device: str, *, as_json: bool) -> int:
    """Reset a controller of the kernel, by its device name."""
    system = System()
    found = _by_name(device, sysfs.controllers(system), system)
    sysfs.reset(found)
    if as_json:
        print_json({"reset": {"device": found.name, "subsysnqn": found.subsysnqn}})
    else:
        print(f"reset {found.path}, connected to {found.subsysnqn}")
    return EXIT_OK


def _by_name(name: str, there: list[ControllerInfo], system: System) -> ControllerInfo:
    short = PurePath(name.strip()).name
    for one in there:
        if one.name == short:
            if not one.is_fabrics:
                raise CliError(f"{one.path} is not connected over a fabric: {one.transport}")
            return one
    raise CliError(f"there is no controller {short!r}; see nvmeof list-subsys")


def disconnect_all(args: argparse.Namespace) -> int:
    """Disconnect all controllers that are connected over a fabric."""
    found = [
        one
        for one in sysfs.controllers(System())
        if one.is_fabrics and args.transport in (None, one.transport)
    ]
    return _disconnect(found, args.output_format == "json")


def _disconnect(found: list[ControllerInfo], as_json: bool) -> int:
    done, failed = [], []
    for one in found:
        try:
            sysfs.delete(one)
            done.append(one)
        except KernelError as error:
            failed.append(str(error))
    if as_json:
        print_json({"disconnected": [{"device": o.name, "subsysnqn": o.subsysnqn} for o in done]})
    else:
        for one in done:
            print(f"disconnected {one.path} from {one.subsysnqn}")
        if not found:
            print("nothing is connected")
    if failed:
        raise CliError("; ".join(failed))
    return EXIT_OK
