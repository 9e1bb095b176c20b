# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target namespace limit`: how much of a namespace all hosts together may use."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, number_argument, size_argument
from nvmf.cli.output import size_text
from nvmf.cli.target.client import add_rpc_command, call
from nvmf.cli.target.done import done

_COUNTS = {
    "read_iops": "reads (Read, Compare, Verify) a second",
    "write_iops": "writes (Write, Write Zeroes) a second",
    "iops": "both a second",
}
_RATES = {
    "read_bandwidth": "bytes of reads a second, such as 100MiB",
    "write_bandwidth": "bytes of writes a second",
    "bandwidth": "bytes of both a second",
}


def add_limit(group: Subparsers) -> None:
    """target namespace limit."""
    parser = add_rpc_command(
        group,
        "limit",
        limit,
        "limit how much of a namespace all hosts together may use, or show the limits",
        "Commands over a limit wait their turn. A limit of 0 is none, one that is not named stays\n"
        "as it is, and without any the limits are shown.",
        examples=(
            "nvmeof target namespace limit nqn.2026-01.example:disk 1 --read-iops 20000",
            "nvmeof target namespace limit nqn.2026-01.example:disk 1 --bandwidth 500MiB",
            "nvmeof target namespace limit nqn.2026-01.example:disk 1",
        ),
    )
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    parser.add_argument("nsid", metavar="NSID", type=number_argument, help="the namespace")
    for name, what in _COUNTS.items():
        parser.add_argument(_flag(name), metavar="N", type=number_argument, help=what)
    for name, what in _RATES.items():
        parser.add_argument(_flag(name), metavar="SIZE", type=size_argument, help=what)
    parser.add_argument(
        "--burst-ms",
        metavar="MS",
        type=number_argument,
        help="so much of each limit, in milliseconds, may be used at once after a rest (100)",
    )
    parser.add_argument("--clear", action="store_true", help="take all limits away")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def limit(args: argparse.Namespace) -> int:
    """Set, show or clear them."""
    place = {"nqn": args.nqn, "nsid": args.nsid}
    wanted = {
        name: getattr(args, name)
        for name in (*_COUNTS, *_RATES, "burst_ms")
        if getattr(args, name) is not None
    }
    if args.clear:
        if wanted:
            raise UsageError("--clear takes all limits away: it goes with no other")
        call(args, "target_clear_ns_limits", **place)
        limits: dict[str, int] = {}
    elif wanted:
        limits = call(args, "target_set_ns_limits", **place, limits=wanted)
    else:
        limits = call(args, "target_get_ns_limits", **place)
    words = f"namespace {args.nsid} of {args.nqn}: {limits_text(limits)}"
    done(args, words, **place, limits=limits)
    return EXIT_OK


def limits_text(limits: dict[str, int]) -> str:
    """Limits for people."""
    said = [f"{name.replace('_', ' ')} {limits[name]}/s" for name in _COUNTS if name in limits]
    said += [
        f"{name.replace('_', ' ')} {size_text(limits[name])}/s" for name in _RATES if name in limits
    ]
    return f"limited to {', '.join(said)}" if said else "no limits"
