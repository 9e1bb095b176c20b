# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target namespace limit`: limits of a namespace for all hosts together."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, number_argument, size_argument
from nvmf.cli.output import size_text
from nvmf.cli.target.client import add_rpc_command, call
from nvmf.cli.target.done import done

_COUNTS = {
    "read_iops": "reads (Read, Compare, Verify) per second",
    "write_iops": "writes (Write, Write Zeroes) per second",
    "iops": "reads and writes per second",
}
_RATES = {
    "read_bandwidth": "bytes read per second, such as 100MiB",
    "write_bandwidth": "bytes written per second",
    "bandwidth": "bytes read and written per second",
}


def add_limit(group: Subparsers) -> None:
    """Add target namespace limit."""
    parser = add_rpc_command(
        group,
        "limit",
        limit,
        "limit the use of a namespace by all hosts together, or show the limits",
        "Commands over a limit are delayed. 0 removes a limit; limits that are not specified stay\n"
        "unchanged. Without options, the limits are shown.",
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
        help="burst allowed after idle time, as milliseconds of each limit (default: 100)",
    )
    parser.add_argument("--clear", action="store_true", help="remove all limits")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def limit(args: argparse.Namespace) -> int:
    """Set, show or clear the limits."""
    place = {"nqn": args.nqn, "nsid": args.nsid}
    wanted = {
        name: getattr(args, name)
        for name in (*_COUNTS, *_RATES, "burst_ms")
        if getattr(args, name) is not None
    }
    if args.clear:
        if wanted:
            raise UsageError("--clear removes all limits: it cannot be combined with other options")
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
    """Return limits as text."""
    said = [f"{name.replace('_', ' ')} {limits[name]}/s" for name in _COUNTS if name in limits]
    said += [
        f"{name.replace('_', ' ')} {size_text(limits[name])}/s" for name in _RATES if name in limits
    ]
    return f"limited to {', '.join(said)}" if said else "no limits"
