# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target namespace limit`: limits of a namespace for all hosts together."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Literal

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, number_argument, size_argument
from nvmf.cli.output import size_text
from nvmf.cli.target.client import add_rpc_command, target
from nvmf.cli.target.done import done

if TYPE_CHECKING:
    from nvmf.rpc.results import Limits

_COUNTS: dict[Literal["read_iops", "write_iops", "iops"], str] = {
    "read_iops": "reads (Read, Compare, Verify) per second",
    "write_iops": "writes (Write, Write Zeroes, Copy) per second",
    "iops": "reads and writes per second",
}
_RATES: dict[Literal["read_bandwidth", "write_bandwidth", "bandwidth"], str] = {
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
    for rate, what in _RATES.items():
        parser.add_argument(_flag(rate), metavar="SIZE", type=size_argument, help=what)
    parser.add_argument(
        "--burst-ms",
        metavar="MS",
        type=number_argument,
        help="burst allowed after idle time, as milliseconds of each limit (default: 100)",
    )
    parser.add_argument("--clear", action="store_true", help="remove all limits")


def _title(name: str) -> str:
    return name.replace("_", " ")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def limit(args: argparse.Namespace) -> int:
    """Set, show or clear the limits."""
    wanted = {
        name: getattr(args, name)
        for name in (*_COUNTS, *_RATES, "burst_ms")
        if getattr(args, name) is not None
    }
    if args.clear:
        if wanted:
            raise UsageError("--clear removes all limits: it cannot be combined with other options")
        with target(args) as rpc:
            rpc.clear_limits(args.nqn, args.nsid)
        limits: Limits = {}
    elif wanted:
        with target(args) as rpc:
            limits = rpc.set_limits(args.nqn, args.nsid, wanted)
    else:
        with target(args) as rpc:
            limits = rpc.limits(args.nqn, args.nsid)
    words = f"namespace {args.nsid} of {args.nqn}: {limits_text(limits)}"
    done(args, words, nqn=args.nqn, nsid=args.nsid, limits=limits)
    return EXIT_OK


def limits_text(limits: Limits) -> str:
    """Return limits as text."""
    said = [f"{_title(name)} {limits[name]}/s" for name in _COUNTS if name in limits]
    said += [f"{_title(rate)} {size_text(limits[rate])}/s" for rate in _RATES if rate in limits]
    return f"limited to {', '.join(said)}" if said else "no limits"
