# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target namespace`: add, remove, resize, replace, mask, protect; limit is in limits.py."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, number_argument, size_argument
from nvmf.cli.output import size_text
from nvmf.cli.target.client import add_group, add_rpc_command, call
from nvmf.cli.target.done import done
from nvmf.cli.target.limits import add_limit

_STATES = {
    "none": "is not write protected",
    "protected": "is write protected",
    "until-power-cycle": "is write protected until the target ends",
    "permanent": "is write protected for good",
}


def add_commands(subparsers: Subparsers) -> None:
    """target namespace add, remove, resize, replace, mask, protect, limit."""
    group = add_group(
        subparsers,
        "namespace",
        "add, remove, resize, replace, mask, protect and limit namespaces",
        examples=(_example("add", "--store file --path /srv/disk2.img"), _example("remove", "2")),
    )
    parser = add_rpc_command(
        group,
        "add",
        add,
        "add a namespace: connected hosts see it at once",
        examples=(
            _example("add", "--store file --path /srv/disk2.img --block-size 4096"),
            _example("add", "-n 7 --store ram --size 1GiB"),
        ),
    )
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    parser.add_argument(
        "-n",
        "--namespace-id",
        metavar="NSID",
        type=number_argument,
        help="its number (default: the lowest free one)",
    )
    _store_arguments(parser)
    parser.add_argument(
        "--hotplug",
        action="store_true",
        help="it comes and goes with what is at its path, and is waited for where nothing is there",
    )
    parser.add_argument("--uuid", metavar="UUID", help="identifiers; made where left out")
    parser.add_argument("--nguid", metavar="HEX", help="32 hexadecimal digits")
    parser.add_argument("--eui64", metavar="HEX", help="16 hexadecimal digits")
    parser.add_argument(
        "--host", metavar="NQN", action="append", help="only this host sees it; may be repeated"
    )

    parser = add_rpc_command(
        group, "remove", remove, "remove a namespace", examples=(_example("remove", "2"),)
    )
    _which(parser)

    parser = add_rpc_command(
        group,
        "resize",
        resize,
        "tell hosts of another size",
        "Make a file longer first (truncate -s): a namespace is never larger than its file.",
        examples=(_example("resize", "2"), _example("resize", "2 10GiB")),
    )
    _which(parser)
    parser.add_argument(
        "size",
        metavar="SIZE",
        nargs="?",
        type=size_argument,
        help="bytes, or 10GiB (default: all that the file has now)",
    )

    parser = add_rpc_command(
        group,
        "replace",
        replace,
        "put another store behind a namespace",
        "Number, identifiers and hosts stay; hosts see the one go and the other come.",
        examples=(_example("replace", "2 --store file --path /srv/other.img"),),
    )
    _which(parser)
    _store_arguments(parser)

    parser = add_rpc_command(
        group,
        "mask",
        mask,
        "say which hosts see a namespace",
        examples=(
            _example("mask", "2 --host nqn.2014-08.org.example:backup"),
            _example("mask", "2 --all"),
        ),
    )
    _which(parser)
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--all", action="store_true", help="every host that may connect")
    who.add_argument("--none", action="store_true", help="no host")
    who.add_argument(
        "--host", metavar="NQN", action="append", help="this host and no other; may be repeated"
    )

    parser = add_rpc_command(
        group,
        "protect",
        protect,
        "let nobody write to a namespace, or end that",
        "What nvme set-feature -f 0x84 does from a host: it lasts through restarts.\n"
        "until-power-cycle ends with the target, before that nothing ends it; permanent never\n"
        "ends.",
        examples=(_example("protect", "2"), _example("protect", "2 none")),
    )
    _which(parser)
    parser.add_argument(
        "state",
        metavar="STATE",
        nargs="?",
        choices=tuple(_STATES),
        default="protected",
        help=f"{', '.join(_STATES)} (default: protected)",
    )

    add_limit(group)


def _example(command: str, words: str) -> str:
    return f"nvmeof target namespace {command} nqn.2026-01.example:disk {words}"


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    parser.add_argument("nsid", metavar="NSID", type=number_argument, help="the namespace")


def _store_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what stands behind it")
    group.add_argument(
        "--store",
        choices=("ram", "file", "pmem", "null"),
        required=True,
        help="memory of the target, a file or block device, persistent memory, or nothing",
    )
    group.add_argument("--path", metavar="FILE", help="the file or block device of file and pmem")
    group.add_argument(
        "--size", metavar="SIZE", type=size_argument, help="bytes, or 10GiB: of ram and null"
    )
    group.add_argument(
        "--block-size", metavar="BYTES", type=size_argument, help="of a logical block: 512 or 4096"
    )
    group.add_argument("--read-only", action="store_true", help="hosts cannot write")


def _store(args: argparse.Namespace) -> dict[str, Any]:
    values = {
        "store": args.store,
        # The target may have another working directory.
        "path": str(Path(args.path).absolute()) if args.path else None,
        "size": args.size,
        "block_size": args.block_size,
        "read_only": args.read_only or None,
    }
    return {key: value for key, value in values.items() if value is not None}


def add(args: argparse.Namespace) -> int:
    """One more."""
    values = _store(args)
    for key, value in (
        ("nsid", args.namespace_id),
        ("uuid", args.uuid),
        ("nguid", args.nguid),
        ("eui64", args.eui64),
        ("hosts", args.host),
        ("hotplug", args.hotplug or None),
    ):
        if value is not None:
            values[key] = value
    nsid = call(args, "nvmf_subsystem_add_ns", nqn=args.nqn, namespace=values)
    facts: dict[str, Any] = {"nqn": args.nqn, "nsid": nsid}
    words = f"namespace {nsid} of {args.nqn} is there"
    if args.hotplug and (absent := _absent(args, nsid)):
        facts["absent"] = absent
        words = f"namespace {nsid} of {args.nqn} waits for {values['path']}: {absent}"
    done(args, words, **facts)
    return EXIT_OK


def _absent(args: argparse.Namespace, nsid: int) -> str | None:
    """Why a namespace is waited for; None where it is there."""
    for subsystem in call(args, "target_get_tree")["subsystems"]:
        for space in subsystem.get("absent_namespaces", ()):
            if (subsystem["nqn"], space["nsid"]) == (args.nqn, nsid):
                return str(space["absent"])
    return None


def remove(args: argparse.Namespace) -> int:
    """One less."""
    call(args, "nvmf_subsystem_remove_ns", nqn=args.nqn, nsid=args.nsid)
    done(args, f"namespace {args.nsid} of {args.nqn} is gone", nqn=args.nqn, nsid=args.nsid)
    return EXIT_OK


def resize(args: argparse.Namespace) -> int:
    """Another size."""
    if args.size == 0:
        raise UsageError("a namespace has at least one block: leave the size out for the file's")
    size = call(args, "target_resize_ns", nqn=args.nqn, nsid=args.nsid, size=args.size)
    words = f"namespace {args.nsid} of {args.nqn} has {size} bytes ({size_text(size)})"
    done(args, words, nqn=args.nqn, nsid=args.nsid, size=size)
    return EXIT_OK


def replace(args: argparse.Namespace) -> int:
    """Another store."""
    call(args, "target_replace_ns", nqn=args.nqn, nsid=args.nsid, namespace=_store(args))
    words = f"namespace {args.nsid} of {args.nqn} is {args.path or args.store} now"
    done(args, words, nqn=args.nqn, nsid=args.nsid)
    return EXIT_OK


def mask(args: argparse.Namespace) -> int:
    """Who sees it."""
    hosts = [] if args.none else args.host
    call(args, "target_mask_ns", nqn=args.nqn, nsid=args.nsid, hosts=hosts)
    seen = " and ".join(hosts) if hosts else "no host" if args.none else "every host"
    words = f"namespace {args.nsid} of {args.nqn} is there for {seen}"
    done(args, words, nqn=args.nqn, nsid=args.nsid, hosts=hosts)
    return EXIT_OK


def protect(args: argparse.Namespace) -> int:
    """Whether hosts can write."""
    call(args, "target_protect_ns", nqn=args.nqn, nsid=args.nsid, state=args.state)
    words = f"namespace {args.nsid} of {args.nqn} {_STATES[args.state]}"
    done(args, words, nqn=args.nqn, nsid=args.nsid, write_protection=args.state)
    return EXIT_OK
