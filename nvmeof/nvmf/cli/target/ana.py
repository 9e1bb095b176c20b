# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target ana`: states of namespace groups on ports."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, number_argument
from nvmf.cli.target.client import add_group, add_rpc_command, target
from nvmf.cli.target.done import done
from nvmf.cli.target.ports import add_address
from nvmf.spec.ana import AnaState


def add_commands(subparsers: Subparsers) -> None:
    """Add target ana set."""
    examples = (
        "nvmeof target ana set -a 192.0.2.1 inaccessible",
        "nvmeof target ana set -a 192.0.2.1 -s 4421 --group 2 optimized",
    )
    group = add_group(
        subparsers, "ana", "steer hosts to one port or another (ANA)", examples=examples[:1]
    )
    parser = add_rpc_command(
        group,
        "set",
        set_state,
        "set the state of a group of namespaces on a port",
        examples=examples,
    )
    add_address(parser)
    parser.add_argument(
        "-g",
        "--group",
        metavar="GROUP",
        type=number_argument,
        default=1,
        help="ana_group of the namespaces (default: 1, the default of all namespaces)",
    )
    parser.add_argument(
        "state",
        choices=[state.word for state in AnaState],
        help="ANA state of the group on this port",
    )


def set_state(args: argparse.Namespace) -> int:
    """Set the ANA state."""
    facts = {"traddr": args.traddr, "trsvcid": args.trsvcid, "group": args.group}
    with target(args) as rpc:
        rpc.set_ana(args.traddr, args.trsvcid, args.state, group=args.group)
    done(
        args,
        f"group {args.group} is {args.state} on {args.traddr} port {args.trsvcid}",
        **facts,
        state=args.state,
    )
    return EXIT_OK
