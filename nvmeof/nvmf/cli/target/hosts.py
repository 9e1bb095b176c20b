# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target host`: who may connect."""

from __future__ import annotations

import argparse

from nvmf.cli.common import EXIT_OK, Subparsers
from nvmf.cli.target.client import add_group, add_rpc_command, call
from nvmf.cli.target.done import done


def add_commands(subparsers: Subparsers) -> None:
    """target host allow, remove."""
    group = add_group(subparsers, "host", "say who may connect to a subsystem")
    parser = add_rpc_command(group, "allow", allow, "let a host connect")
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("host", metavar="HOSTNQN", nargs="?", help="the host")
    who.add_argument("--any", action="store_true", help="every host")
    parser = add_rpc_command(
        group, "remove", remove, "let a host connect no more, and disconnect it"
    )
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("host", metavar="HOSTNQN", nargs="?", help="the host")
    who.add_argument("--any", action="store_true", help="every host that is not named from then on")


def allow(args: argparse.Namespace) -> int:
    """One more."""
    if args.any:
        call(args, "nvmf_subsystem_allow_any_host", nqn=args.nqn, allow_any_host=True)
        done(args, f"every host may connect to {args.nqn}", nqn=args.nqn, allow_any_host=True)
    else:
        call(args, "nvmf_subsystem_add_host", nqn=args.nqn, host=args.host)
        done(args, f"{args.host} may connect to {args.nqn}", nqn=args.nqn, host=args.host)
    return EXIT_OK


def remove(args: argparse.Namespace) -> int:
    """One less."""
    if args.any:
        call(args, "nvmf_subsystem_allow_any_host", nqn=args.nqn, allow_any_host=False)
        done(args, f"no host may connect to {args.nqn}", nqn=args.nqn, allow_any_host=False)
    else:
        call(args, "nvmf_subsystem_remove_host", nqn=args.nqn, host=args.host)
        done(args, f"{args.host} may not connect to {args.nqn}", nqn=args.nqn, host=args.host)
    return EXIT_OK
