# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect`: connects the kernel to one subsystem."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, add_command
from nvmf.cli.common import where_of
from nvmf.cli.kernel.arguments import NO_BACKEND, add_connect_arguments, fabrics_options
from nvmf.cli.kernel.words import connected_fields, print_blocks
from nvmf.cli.output import print_json
from nvmf.initiator.base.transport_id import DEFAULT_PORT
from nvmf.initiator.kernel.host import READY_SECONDS, Connected
from nvmf.initiator.kernel.host import connect as connect_kernel
from nvmf.initiator.kernel.system import System


def add_commands(subparsers: Subparsers) -> None:
    """Add connect."""
    parser = add_command(
        subparsers,
        "connect",
        connect,
        "connect the kernel to a subsystem, and wait for its block devices",
        "Requires root, Linux's nvme-rdma, and an RDMA device that reaches the target.\n"
        f"{NO_BACKEND}",
        examples=(
            "sudo nvmeof connect -t rdma -a 192.0.2.1 -s 4420 -n nqn.2026-01.example:disk",
            "sudo nvmeof connect nvme+rdma://192.0.2.1/nqn.2026-01.example:disk -i 4",
        ),
    )
    add_where_arguments(parser)
    parser.add_argument("-n", "--nqn", metavar="NQN", help="NQN of the subsystem")
    add_connect_arguments(parser)


def add_where_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the port of a target, as a URL or with flags."""
    group = parser.add_argument_group("target")
    group.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="nvme+rdma://HOST:PORT/NQN?OPTION=VALUE, instead of the flags",
    )
    group.add_argument(
        "-t", "--transport", choices=("rdma",), default="rdma", help="only rdma is supported"
    )
    group.add_argument("-a", "--traddr", metavar="HOST", help="address or name of the target")
    group.add_argument(
        "-s", "--trsvcid", metavar="PORT", help=f"port of the target (default: {DEFAULT_PORT})"
    )


def connect(args: argparse.Namespace) -> int:
    """Connect, wait for block devices, and print them."""
    if args.url is None and args.nqn is None:
        raise UsageError("specify the NQN of the subsystem with -n; nvmeof discover lists them")
    place = where_of(args)
    found = connect_kernel(fabrics_options(args, place), System())
    if args.output_format == "json":
        print_json(connected_fields(found))
    else:
        print(f"connected {found.controller.path} to {found.controller.subsysnqn}")
        if found.namespaces:
            print_blocks(found.namespaces)
    complain_of_missing(found)
    return EXIT_OK


def complain_of_missing(found: Connected) -> None:
    """Raise CliError if a namespace has no block device."""
    if found.missing:
        listed = ", ".join(str(nsid) for nsid in found.missing)
        raise CliError(
            f"{found.controller.name} is connected, but no block device appeared within "
            f"{READY_SECONDS:g} s for namespace {listed}; see dmesg"
        )
