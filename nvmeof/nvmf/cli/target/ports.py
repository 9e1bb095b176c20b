# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target port`: the ports on which the target listens."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, number_argument
from nvmf.cli.target.client import add_group, add_rpc_command, target
from nvmf.cli.target.done import done
from nvmf.json import JSON


def add_commands(subparsers: Subparsers) -> None:
    """Add target port add and remove."""
    examples = (
        "nvmeof target port add -a 192.0.2.1 -s 4421",
        "nvmeof target port add -a 192.0.2.2 --device system --hotplug",
        "nvmeof target port remove -a 192.0.2.1 -s 4421",
    )
    group = add_group(subparsers, "port", "open and close ports", examples=examples)
    parser = add_rpc_command(
        group, "add", add, "listen on an additional address", examples=examples[:2]
    )
    add_address(parser)
    parser.add_argument(
        "--device",
        choices=("auto", "iwarp", "roce", "system"),
        help="an embedded device (iwarp, roce), a libibverbs device (system), or a system device "
        "if one has the address, else iwarp (default: auto)",
    )
    parser.add_argument(
        "--hotplug",
        action="store_true",
        help="follow the device: listen only while it exists; requires a --device other than auto",
    )
    parser.add_argument(
        "--wire-faults",
        action="store_true",
        help="for tests: with a relay, so that faults on the wire are possible (target fault add "
        "wire-drop); much slower, requires --device iwarp or roce",
    )
    parser = add_rpc_command(
        group,
        "remove",
        remove,
        "stop listening on an address, and disconnect its hosts",
        examples=examples[2:],
    )
    add_address(parser)


def add_address(parser: argparse.ArgumentParser) -> None:
    """Add the address of a port."""
    parser.add_argument(
        "-a", "--traddr", metavar="ADDRESS", required=True, help="a numeric IPv4 or IPv6 address"
    )
    parser.add_argument(
        "-s",
        "--trsvcid",
        metavar="PORT",
        type=number_argument,
        default=4420,
        help="port (default: 4420)",
    )


def add(args: argparse.Namespace) -> int:
    """Open a port."""
    values: dict[str, JSON] = {
        "traddr": args.traddr,
        "trsvcid": args.trsvcid,
        "device": args.device,
        "hotplug": args.hotplug or None,
        "wire_faults": args.wire_faults or None,
    }
    known = {key: value for key, value in values.items() if value is not None}
    with target(args) as rpc:
        opened = rpc.add_port(known)
    where = f"{opened['traddr']} port {opened['trsvcid']}"
    words = f"listening on {where}"
    if "absent" in opened:
        words = f"will listen on {where} when its device is present: {opened['absent']}"
    done(args, words, **opened)
    return EXIT_OK


def remove(args: argparse.Namespace) -> int:
    """Close a port."""
    with target(args) as rpc:
        rpc.remove_port(args.traddr, args.trsvcid)
    facts = {"traddr": args.traddr, "trsvcid": str(args.trsvcid)}
    done(args, f"no longer listening on {args.traddr} port {args.trsvcid}", **facts)
    return EXIT_OK
