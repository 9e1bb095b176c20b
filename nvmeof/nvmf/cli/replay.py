# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof replay`: sends the commands of a capture file to a target, and compares."""

from __future__ import annotations

import argparse

from nvmf.capture.errors import CaptureError
from nvmf.capture.explain import explain
from nvmf.capture.replay import Replayed, commands_of, replay
from nvmf.cli.base import (
    EXIT_DIFFERS,
    EXIT_OK,
    EXIT_TROUBLE,
    CliError,
    Subparsers,
    UsageError,
    add_command,
    number_argument,
)
from nvmf.cli.common import (
    add_place_arguments,
    add_secret_arguments,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.connectflags import IDENTITY, add_flags, url_options_help
from nvmf.cli.explain import read
from nvmf.cli.output import counted, print_json, print_table
from nvmf.initiator import Controller, connect


def add_commands(subparsers: Subparsers) -> None:
    """Add replay."""
    parser = add_command(
        subparsers,
        "replay",
        run,
        "send the commands of a capture file to a target, and compare its responses",
        "Plays the host of a capture file against a running target, over a connection of its own "
        "and on any device: one command after the other, in the order of the file. Differences of "
        "status, results and data are printed. Commands that change data are played only with "
        "--write. What belongs to the captured connection (Connect, events, keep-alives, features "
        "that are set, authentication) is not played; log pages are read, but not compared.\n\n"
        "Exit status: 0 if all responses are the same, 1 if one differs, 2 if the file cannot be "
        "read or the target cannot be reached.",
        examples=(
            "nvmeof replay io.pcapng nvme+rdma://127.0.0.1/nqn.2026-01.example:disk",
            "nvmeof replay --connection 2 io.pcapng nvme+rdma://127.0.0.1/nqn.2026-01.example:disk",
        ),
    )
    parser.set_defaults(trouble=EXIT_TROUBLE)
    parser.add_argument("file", metavar="FILE", help="the capture file")
    add_place_arguments(parser)
    group = parser.add_argument_group("host")
    add_flags(group, IDENTITY)
    add_secret_arguments(parser)
    parser.add_argument(
        "--write",
        action="store_true",
        help="also play commands that change data: the target's namespaces are overwritten",
    )
    parser.add_argument(
        "--connection",
        metavar="N",
        type=number_argument,
        help="only connection N of nvmeof explain (default: all)",
    )
    parser.epilog = url_options_help()


def run(args: argparse.Namespace) -> int:
    """Replay a file."""
    place = where_of(args)
    options = options_of(args, place, queues=1, ctrl_loss_tmo=0)
    try:
        found = explain(read(args.file), keep=True)
    except CaptureError as error:
        raise CliError(f"{args.file}: {error}") from None
    numbers = [one.number for one in found.dialogues]
    if args.connection is not None and args.connection not in numbers:
        raise UsageError(f"{args.file} has no connection {args.connection}: see nvmeof explain")
    commands = commands_of(one for one in found.dialogues if args.connection in (None, one.number))
    if not commands:
        raise CliError(f"{args.file} has no NVMe-oF commands: see nvmeof explain")

    async def play() -> int:
        async with connect(place, options) as controller:
            assert isinstance(controller, Controller)
            result = await replay(controller, commands, write=args.write)
        _print(args, result)
        return EXIT_DIFFERS if result.differences else EXIT_OK

    return run_async(play())


def _print(args: argparse.Namespace, result: Replayed) -> None:
    if args.output_format == "json":
        print_json(result)
        return
    if result.differences:
        header = ("packet", "command", "parameters", "difference")
        print_table(
            header, [(d.packet, d.command, d.detail, d.sentence) for d in result.differences]
        )
        print()
    print(
        f"{counted(result.played, 'command')} played, "
        f"{counted(len(result.differences), 'difference')}"
    )
    for why, count in sorted(result.skipped.items(), key=lambda pair: -pair[1]):
        print(f"{counted(count, 'command')} not played: {why}")
