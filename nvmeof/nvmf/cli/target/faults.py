# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target fault`: faults on purpose, for tests."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
from typing import TYPE_CHECKING

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, number_argument, size_argument
from nvmf.cli.output import print_json
from nvmf.cli.target.client import add_group, add_rpc_command, target
from nvmf.cli.target.done import done

if TYPE_CHECKING:
    from nvmf.json import JSON
    from nvmf.rpc.results import Fault

_KINDS = {
    "delay": "commands start later",
    "error": "commands end with an NVMe status",
    "full": "writes end with Capacity Exceeded, as if the store had no space left",
    "torn": "only the first blocks of a write are written",
    "hang": "commands start when the fault ends",
    "drop": "commands never start and get no response",
    "cut": "commands end their connection",
    "lost": "connections end, and new ones are refused",
    "wire-delay": "frames on the wire arrive later",
    "wire-drop": "frames are lost",
    "wire-duplicate": "frames arrive twice",
    "wire-reorder": "a frame and the next one are swapped",
    "wire-corrupt": "a bit of a frame is inverted",
    "wire-cut": "connections are reset (iwarp)",
    "wire-half-open": "connections end at the target, and hosts are not told",
    "wire-stall": "frames wait until the fault ends",
}
_UNITS = {"us": 1, "ms": 1000, "s": 1_000_000}
_ADD = (
    "nvmeof target fault add delay --delay 5ms --nsid 1",
    "nvmeof target fault add error --status 'Write Fault' --commands write --rate 0.001",
    "nvmeof target fault add torn --nsid 1 --after 100 --count 1 --crash",
    "nvmeof target fault add lost --trsvcid 4421 --seconds 30",
    "nvmeof target fault add wire-stall --direction to-host --queue 1 --seconds 2",
)
_KEYS = [
    "subsystem",
    "nsid",
    "host",
    "traddr",
    "trsvcid",
    "queue",
    "commands",
    "first_block",
    "blocks",
    "rate",
    "after",
    "count",
    "seconds",
    "seed",
    "status",
    "bandwidth",
    "distribution",
    "delay_us",
    "spread_us",
    "direction",
]


def duration_argument(text: str) -> int:
    """Return microseconds from text such as 500us, 2ms or 1.5s."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(us|ms|s)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 500us, 2ms or 1.5s")
    return round(float(match[1]) * _UNITS[match[2]])


def finite_argument(text: str) -> float:
    """Return a number; JSON has neither nan nor inf."""
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number")


def add_commands(subparsers: Subparsers) -> None:
    """Add target fault add, list and remove."""
    group = add_group(
        subparsers,
        "fault",
        "inject faults on purpose, for tests (only with allow_faults in the configuration)",
        examples=_ADD[:1],
    )
    _add_add(group)
    add_rpc_command(
        group,
        "list",
        show,
        "show active faults, and the last ones that have ended",
        examples=("nvmeof target fault list",),
    )
    remove = add_rpc_command(
        group,
        "remove",
        end,
        "end faults",
        examples=("nvmeof target fault remove 1", "nvmeof target fault remove --all"),
    )
    remove.add_argument("id", metavar="ID", nargs="?", type=number_argument, help="the fault")
    remove.add_argument("--all", action="store_true", help="all active faults")


def _add_add(group: Subparsers) -> None:
    kinds = "\n".join(f"  {kind:<14} {what}" for kind, what in _KINDS.items())
    parser = add_rpc_command(
        group,
        "add",
        add,
        "start a fault",
        f"KIND is one of:\n\n{kinds}\n\n"
        "It concerns the commands that meet all conditions; without conditions, all commands of\n"
        "I/O queues. Kinds with wire- concern the frames of connections to ports that were\n"
        "opened with --wire-faults; their conditions are --host, --subsystem, --queue, --nsid,\n"
        "--traddr, --trsvcid, --direction and --rate. The same seed and the same order of\n"
        "commands give the same faults. A fault ends after its --count or --seconds, when it is\n"
        "removed, or with the target.",
        examples=_ADD,
    )
    parser.add_argument("kind", metavar="KIND", choices=list(_KINDS), help="see above")
    _add_conditions(parser)
    _add_effects(parser)


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("conditions")
    where.add_argument("--subsystem", metavar="NQN", help="NQN of the subsystem")
    where.add_argument("--nsid", metavar="NSID", type=number_argument, help="the namespace")
    where.add_argument("--host", metavar="NQN", help="NQN of the host")
    where.add_argument("--traddr", metavar="ADDR", help="the target's address: a path")
    where.add_argument("--trsvcid", metavar="PORT", type=number_argument, help="the port number")
    where.add_argument(
        "--queue", metavar="N", type=number_argument, help="the queue; 0: the admin queue"
    )
    where.add_argument("--admin", action="store_true", help="also commands of the admin queue")
    where.add_argument(
        "--commands",
        metavar="LIST",
        type=lambda text: text.split(","),
        help="of read, write, flush, compare, verify, write-zeroes, dsm and copy, with commas",
    )
    where.add_argument(
        "--first-block",
        metavar="LBA",
        type=number_argument,
        help="first block of a range; flush, dsm and copy are in none",
    )
    where.add_argument(
        "--blocks", metavar="N", type=number_argument, help="blocks of the range (default: 1)"
    )
    where.add_argument(
        "--direction",
        choices=("both", "to-target", "to-host"),
        help="wire: direction of the frames (default: both)",
    )
    where.add_argument(
        "--rate", metavar="P", type=finite_argument, help="probability, up to 1 (default: 1)"
    )
    where.add_argument(
        "--after", metavar="N", type=number_argument, help="matching commands that pass first"
    )


def _add_effects(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("effects and end")
    what.add_argument(
        "--delay",
        metavar="TIME",
        dest="delay_us",
        type=duration_argument,
        help="the delay, or its mean, such as 500us, 2ms or 1s",
    )
    what.add_argument(
        "--distribution",
        choices=("fixed", "uniform", "normal", "exponential"),
        help="distribution of the delay (default: fixed)",
    )
    what.add_argument(
        "--spread",
        metavar="TIME",
        dest="spread_us",
        type=duration_argument,
        help="uniform: half the width; normal: the standard deviation",
    )
    what.add_argument(
        "--bandwidth",
        metavar="SIZE",
        type=size_argument,
        help="delay: bytes per second of all matching commands, such as 100MiB",
    )
    what.add_argument(
        "--status",
        metavar="STATUS",
        help="error and torn: an NVMe status (default: Internal Error; torn: Write Fault)",
    )
    what.add_argument("--dnr", action="store_true", help="error, full and torn: set Do Not Retry")
    what.add_argument(
        "--crash",
        action="store_true",
        help="torn: end the connection instead of sending a response",
    )
    what.add_argument(
        "--count", metavar="N", type=number_argument, help="end after N affected commands"
    )
    what.add_argument("--seconds", metavar="S", type=finite_argument, help="end after S seconds")
    what.add_argument("--seed", metavar="N", type=number_argument, help="seed (default: 0)")


def add(args: argparse.Namespace) -> int:
    """Start a fault."""
    wanted: dict[str, JSON] = {"kind": args.kind}
    for key in _KEYS:
        if getattr(args, key) is not None:
            wanted[key] = getattr(args, key)
    for key in ("admin", "dnr", "crash"):
        if getattr(args, key):
            wanted[key] = True
    with target(args) as rpc:
        fault = rpc.add_fault(wanted)
    done(args, f"fault {fault['id']}: {fault['summary']}", **fault)
    return EXIT_OK


def show(args: argparse.Namespace) -> int:
    """Print the faults."""
    with target(args) as rpc:
        every = rpc.faults()
    if args.output_format == "json":
        print_json(every)
    else:
        print("\n".join(map(_line, every)) or "no faults")
    return EXIT_OK


def end(args: argparse.Namespace) -> int:
    """End one fault, or all."""
    if args.all == (args.id is not None):
        raise UsageError("specify the ID of a fault (target fault list), or --all")
    with target(args) as rpc:
        ids = [one["id"] for one in rpc.faults() if one["ended"] is None] if args.all else [args.id]
        ended = [rpc.remove_fault(one) for one in ids]
    if args.output_format == "json":
        print_json(ended)
    else:
        print("\n".join(map(_line, ended)) or "no active faults")
    return EXIT_OK


def _line(one: Fault) -> str:
    state = f"for {one['seconds']:.1f} s"
    if one["ended"] is not None:
        state = f"ended after {one['seconds']:.1f} s: {one['ended']}"
    return f"fault {one['id']}: {one['summary']}; {one['hits']} of {one['matched']} hit; {state}"
