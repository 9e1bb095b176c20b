# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target mirror`: states of mirrors, and their legs; and --leg for a new mirror."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, number_argument, size_argument
from nvmf.cli.output import print_json, size_text
from nvmf.cli.target.client import add_group, add_rpc_command, target
from nvmf.cli.target.done import done
from nvmf.json import JSON

if TYPE_CHECKING:
    from nvmf.rpc.results import Mirror, MirrorLeg, Notification

_LEG = (
    "file, block device or device DAX, pmem:PATH for a file on DAX, ram:SIZE, or URL of a "
    "subsystem of a different target, "
    "nvme+rdma://HOST:PORT/NQN, with #NSID at its end if that is not 1"
)
_EXAMPLE = "nvme+rdma://192.0.2.7/nqn.2026-01.example:disk"


def leg_argument(text: str) -> dict[str, JSON]:
    """Parse a leg."""
    if "://" in text:
        url, mark, nsid = text.partition("#")
        if mark and not nsid.isdecimal():
            raise argparse.ArgumentTypeError(f"{text!r}: #NSID must be a number")
        return {"url": url, "nsid": int(nsid)} if mark else {"url": url}
    if text.startswith("ram:"):
        return {"ram": size_argument(text.removeprefix("ram:"))}
    store, mark, path = text.partition(":")
    if mark and store in ("file", "pmem"):
        if not path:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a path after {store}:")
        return {"path": str(Path(path).absolute()), "store": store}
    if not text:
        raise argparse.ArgumentTypeError("a leg must not be empty")
    # The target may have a different working directory.
    return {"path": str(Path(text).absolute())}


def add_legs(group: argparse._ArgumentGroup) -> None:
    """Add --leg, --quorum and --resync-rate."""
    group.add_argument(
        "--leg",
        metavar="LEG",
        type=leg_argument,
        action="append",
        help=f"copy of the data, for mirror, twice or more: {_LEG}",
    )
    group.add_argument(
        "--quorum",
        metavar="N",
        type=number_argument,
        help="legs that must have a write, for mirror (default: more than half)",
    )
    group.add_argument(
        "--resync-rate",
        metavar="SIZE",
        type=size_argument,
        help="bytes per second to copy at most while hosts use the mirror (default: 32MiB)",
    )


def legs_of(args: argparse.Namespace) -> dict[str, JSON]:
    """Return the keys of a namespace that these arguments give."""
    values: dict[str, JSON] = {
        "leg": args.leg,
        "quorum": args.quorum,
        "resync_rate": args.resync_rate,
    }
    given: dict[str, JSON] = {key: value for key, value in values.items() if value is not None}
    if args.store == "mirror":
        if args.leg is None or len(args.leg) < 2:
            raise UsageError("--store mirror needs --leg at least twice")
    elif given:
        flag = next(iter(given)).replace("_", "-")
        raise UsageError(f"--{flag} requires --store mirror, not {args.store}")
    return given


def add_commands(subparsers: Subparsers) -> None:
    """Add target mirror show, events, add-leg, remove-leg, replace-leg and resync."""
    group = add_group(
        subparsers,
        "mirror",
        "show the legs of mirrors, and add, remove, replace and resynchronise them",
        examples=("nvmeof target mirror show", _example("add-leg", _EXAMPLE)),
    )
    add_rpc_command(
        group,
        "show",
        show,
        "show the state of each leg of each mirror",
        "in-sync: it has everything; resynchronising: it is copied where it lags; lost: it is\n"
        "tried again every second; refused: it is not the leg that it should be, with the reason.",
        examples=("nvmeof target mirror show", "nvmeof target mirror show -o json"),
    )

    shown = add_rpc_command(
        group,
        "events",
        events,
        "show the newest changes of the states of mirrors and of their legs",
        "The target keeps 1,000 since it started. With -o json, one object per line.",
        examples=("nvmeof target mirror events", "nvmeof target mirror events --follow -o json"),
    )
    shown.add_argument(
        "-f", "--follow", action="store_true", help="continue with new ones until interrupted"
    )

    parser = _change(
        group,
        "add-leg",
        add_leg,
        "add a leg to a mirror whose legs are all in sync",
        "What is on the leg is lost: its first MiB must be zeroes. Commands of hosts wait while\n"
        "the mirror is opened with it.",
        examples=(_example("add-leg", _EXAMPLE), _example("add-leg", "/srv/copy.img --quorum 2")),
    )
    parser.add_argument("leg", metavar="LEG", type=leg_argument, help=_LEG)
    _add_quorum(parser)

    parser = _change(
        group,
        "remove-leg",
        remove_leg,
        "remove a leg of a mirror whose other legs are all in sync",
        "Commands of hosts wait while the mirror is opened without it.",
        examples=(_example("remove-leg", "/srv/copy.img"),),
    )
    _add_name(parser)
    _add_quorum(parser)

    parser = _change(
        group,
        "replace-leg",
        replace_leg,
        "replace a leg of a mirror, lost or not",
        "The new leg must be blank (its first MiB zeroes) or a former leg of this mirror, and\n"
        "is copied as a whole; if it is the same leg by a different address, only in part.",
        examples=(_example("replace-leg", f"/srv/copy.img {_EXAMPLE}"),),
    )
    _add_name(parser)
    parser.add_argument("new", metavar="LEG", type=leg_argument, help=f"the new leg: {_LEG}")

    _change(
        group,
        "resync",
        resync,
        "try the lost legs of a mirror again now",
        "Fails with the reason if one cannot be used. If a different writer has taken over, takes\n"
        "over from it: first make sure that it has ended.",
        examples=(_example("resync", ""),),
    )


def _example(command: str, words: str) -> str:
    return f"nvmeof target mirror {command} nqn.2026-01.example:disk 1 {words}".rstrip()


def _change(
    group: Subparsers,
    name: str,
    function: Callable[[argparse.Namespace], int],
    summary: str,
    description: str,
    examples: tuple[str, ...],
) -> argparse.ArgumentParser:
    parser = add_rpc_command(group, name, function, summary, description, examples=examples)
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    parser.add_argument("nsid", metavar="NSID", type=number_argument, help="the namespace")
    return parser


def _leg_name(text: str) -> str:
    """Return the name of a leg from the words with which it was added: a path may be relative, and
    a URL has no #NSID if that is 1."""
    if "://" in text:
        return text if "#" in text else f"{text}#1"
    if text == "ram" or text.startswith("ram:"):
        return text
    try:
        return str(leg_argument(text).get("path", text))
    except argparse.ArgumentTypeError:
        return text


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        type=_leg_name,
        help="name of the leg, as target mirror show prints it, or its path or URL",
    )


def _add_quorum(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quorum",
        metavar="N",
        type=number_argument,
        help="the new quorum (default: as before, or more than half)",
    )


def leg_text(leg: MirrorLeg) -> str:
    """Return the state of a leg."""
    text = f"leg {leg['name']}: {leg['state']}"
    if leg["percent"] < 100:
        text += f", {leg['percent']:g} % in sync, {size_text(leg['lagging_bytes'])} to copy"
    return f"{text} ({leg['reason']})" if leg["reason"] else text


def mirror_text(one: Mirror) -> str:
    """Return the state of a mirror."""
    return f"{one['state']}, quorum {one['quorum']} of {len(one['legs'])}"


def show(args: argparse.Namespace) -> int:
    """Print all mirrors."""
    with target(args) as rpc:
        mirrors = rpc.mirrors()
    if args.output_format == "json":
        print_json(mirrors)
        return EXIT_OK
    for one in mirrors:
        print(f"namespace {one['nsid']} of {one['nqn']}: {mirror_text(one)}, epoch {one['epoch']}")
        for leg in one["legs"]:
            print(f"  {leg_text(leg)}")
    if not mirrors:
        print("no namespace is a mirror")
    return EXIT_OK


_EVERY = 1.0
"""Seconds between two questions for new events."""


def events(args: argparse.Namespace) -> int:
    """Print events."""
    after = 0
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            with target(args) as rpc:
                found = rpc.events(id=after)
            for one in found:
                after = one["id"] + 1
                print(_event(one, args.output_format), flush=True)
            if not args.follow:
                break
            time.sleep(_EVERY)
    return EXIT_OK


def _event(one: Notification, output: str) -> str:
    if output == "json":
        return json.dumps(one)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"]))
    reason = f" ({one['reason']})" if one["reason"] else ""
    return f"{when}  {one['type']}: {one['ctx']}{reason}"


def _said(leg: dict[str, JSON]) -> str:
    if "url" in leg:
        return f"{leg['url']}#{leg.get('nsid', 1)}"
    return str(leg.get("path") or "ram")


def add_leg(args: argparse.Namespace) -> int:
    """Add a leg."""
    with target(args) as rpc:
        rpc.add_leg(args.nqn, args.nsid, args.leg, quorum=args.quorum)
    words = (
        f"{_said(args.leg)} is a leg of namespace {args.nsid} of {args.nqn}, and is being copied"
    )
    done(args, words, nqn=args.nqn, nsid=args.nsid, leg=args.leg)
    return EXIT_OK


def remove_leg(args: argparse.Namespace) -> int:
    """Remove a leg."""
    with target(args) as rpc:
        rpc.remove_leg(args.nqn, args.nsid, args.name, quorum=args.quorum)
    words = f"{args.name} is no longer a leg of namespace {args.nsid} of {args.nqn}"
    done(args, words, nqn=args.nqn, nsid=args.nsid, name=args.name)
    return EXIT_OK


def replace_leg(args: argparse.Namespace) -> int:
    """Replace a leg."""
    with target(args) as rpc:
        rpc.replace_leg(args.nqn, args.nsid, args.name, args.new)
    words = f"{_said(args.new)} has replaced {args.name}, and is being copied"
    done(args, words, nqn=args.nqn, nsid=args.nsid, name=args.name, leg=args.new)
    return EXIT_OK


def resync(args: argparse.Namespace) -> int:
    """Try lost legs again."""
    with target(args) as rpc:
        rpc.resync_mirror(args.nqn, args.nsid)
    words = f"all legs of namespace {args.nsid} of {args.nqn} are there"
    done(args, words, nqn=args.nqn, nsid=args.nsid)
    return EXIT_OK
