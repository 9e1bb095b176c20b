# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target subsystem`: add and remove subsystems."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, number_argument, warn_of_names
from nvmf.cli.target.client import add_group, add_rpc_command, target
from nvmf.cli.target.done import done
from nvmf.json import JSON


def add_commands(subparsers: Subparsers) -> None:
    """Add target subsystem add and remove."""
    examples = (
        "nvmeof target subsystem add nqn.2026-01.example:lab --allow-any-host",
        "nvmeof target subsystem add nqn.2026-01.example:lab --host nqn.2014-08.org.example:laptop",
        "nvmeof target subsystem remove nqn.2026-01.example:lab",
    )
    group = add_group(subparsers, "subsystem", "add and remove subsystems", examples=examples)
    parser = add_rpc_command(
        group, "add", add, "add a subsystem without namespaces", examples=examples[:2]
    )
    parser.add_argument("nqn", metavar="NQN", help="NQN of the subsystem")
    parser.add_argument(
        "--serial", metavar="TEXT", help="serial number (default: derived from the NQN)"
    )
    parser.add_argument("--model", metavar="TEXT", help="model number")
    parser.add_argument(
        "--max-namespaces", metavar="N", type=number_argument, help="the highest NSID (32)"
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--allow-any-host", action="store_true", help="every host may connect")
    who.add_argument(
        "--host", metavar="NQN", action="append", help="a host that may connect; may be repeated"
    )
    parser = add_rpc_command(
        group,
        "remove",
        remove,
        "remove a subsystem, and disconnect its hosts",
        examples=examples[2:],
    )
    parser.add_argument("nqn", metavar="NQN", help="NQN of the subsystem")


def add(args: argparse.Namespace) -> int:
    """Add a subsystem."""
    values: dict[str, JSON] = {
        "nqn": args.nqn,
        "serial": args.serial,
        "model": args.model,
        "max_namespaces": args.max_namespaces,
        "hosts": args.host,
    }
    known = {key: value for key, value in values.items() if value is not None}
    if args.allow_any_host:
        known["allow_any_host"] = True
    warn_of_names(args.nqn, *(args.host or ()))
    with target(args) as rpc:
        rpc.add_subsystem(known)
    done(args, f"subsystem {args.nqn} was added", nqn=args.nqn)
    return EXIT_OK


def remove(args: argparse.Namespace) -> int:
    """Remove a subsystem."""
    with target(args) as rpc:
        rpc.delete_subsystem(args.nqn)
    done(args, f"subsystem {args.nqn} was removed", nqn=args.nqn)
    return EXIT_OK
