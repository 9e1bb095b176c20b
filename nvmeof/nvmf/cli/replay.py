# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof replay`: plays the host or the target of a capture file against a live peer."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Literal

from nvmf.capture.dialogue import Dialogue
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
from nvmf.initiator.base.transport_id import DEFAULT_PORT

if TYPE_CHECKING:
    from nvmf.capture.recorded import Tally

_MOST_PORT = 0xFFFF


def add_commands(subparsers: Subparsers) -> None:
    """Add replay."""
    parser = add_command(
        subparsers,
        "replay",
        run,
        "play the host or the target of a capture file against a live peer",
        "Plays the host of a capture file against a running target, over a connection of its own "
        "and on any device: one command after the other, in the order of the file. Differences of "
        "status, results and data are printed. Commands that change data are played only with "
        "--write. What belongs to the captured connection (Connect, events, keep-alives, features "
        "that are set, authentication) is not played; log pages are read, but not compared.\n\n"
        "With --as target, plays the target: listens at -a (default: 127.0.0.1) and -s, answers "
        "the commands of live hosts with the recorded responses, until Ctrl-C. Commands of the "
        "admin queue are matched by opcode and parameters, I/O commands by opcode and LBA; reads "
        "return the blocks that the file has, as the live host has changed them.\n\n"
        "Exit status: 0 if all responses are the same, or each command was in the file; 1 if not; "
        "2 if the file cannot be read, or the target cannot be reached.",
        examples=(
            "nvmeof replay --as target -s 4420 --device iwarp io.pcapng",
            "nvmeof replay io.pcapng nvme+rdma://127.0.0.1/nqn.2026-01.example:disk",
            "nvmeof replay --connection 2 io.pcapng nvme+rdma://127.0.0.1/nqn.2026-01.example:disk",
        ),
    )
    parser.set_defaults(trouble=EXIT_TROUBLE)
    parser.add_argument("file", metavar="FILE", help="the capture file")
    parser.add_argument(
        "--as",
        dest="side",
        choices=("host", "target"),
        default="host",
        help="the side to play (default: host)",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="with --as target: end when the hosts have disconnected",
    )
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
    parser.epilog = url_options_help(parser)


def run(args: argparse.Namespace) -> int:
    """Replay a file."""
    if args.side == "target":
        return _as_target(args)
    if args.once:
        raise UsageError("--once is for --as target")
    place = where_of(args)
    options = options_of(args, place, queues=1, ctrl_loss_tmo=0)
    commands = commands_of(_dialogues(args))
    if not commands:
        raise CliError(f"{args.file} has no NVMe-oF commands: see nvmeof explain")

    async def play() -> int:
        async with connect(place, options) as controller:
            assert isinstance(controller, Controller)
            result = await replay(controller, commands, write=args.write)
        _print(args, result)
        return EXIT_DIFFERS if result.differences else EXIT_OK

    return run_async(play())


def _dialogues(args: argparse.Namespace) -> list[Dialogue]:
    """Return the connections of the file that are to be played."""
    try:
        found = explain(read(args.file), keep=True)
    except CaptureError as error:
        raise CliError(f"{args.file}: {error}") from None
    numbers = [one.number for one in found.dialogues]
    if args.connection is not None and args.connection not in numbers:
        raise UsageError(f"{args.file} has no connection {args.connection}: see nvmeof explain")
    return [one for one in found.dialogues if args.connection in (None, one.number)]


def _as_target(args: argparse.Namespace) -> int:
    from nvmf.capture.recorded import RecordedTarget
    from nvmf.capture.serve import RecordedServer

    if args.url is not None or args.nqn is not None or args.write:
        raise UsageError("--as target needs only -a, -s and --device: the file has the NQNs")
    text = args.trsvcid or DEFAULT_PORT
    if not text.isdecimal() or int(text) > _MOST_PORT:
        raise UsageError(f"a port is 0 to {_MOST_PORT}, not {text!r}")
    port = int(text)
    try:
        recorded = RecordedTarget(_dialogues(args))
    except CaptureError as error:
        raise CliError(f"{args.file}: {error}") from None

    device: Literal["iwarp", "roce", "system"] = "iwarp"
    if args.device == "roce" or args.device == "system":
        device = args.device

    async def play() -> None:
        server = RecordedServer(recorded, (args.traddr or "127.0.0.1", port), device)
        try:
            ended = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
            host, used = server.address
            out = sys.stderr if args.output_format == "json" else sys.stdout
            names = ", ".join(recorded.subsystems)
            print(f"listening on {host} port {used}, as {names}", file=out, flush=True)
            waits = {asyncio.ensure_future(ended.wait())}
            if args.once:
                waits.add(asyncio.ensure_future(server.idle.wait()))
            _, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in others:
                one.cancel()
        finally:
            server.close()

    asyncio.run(play())
    return _print_tally(args, recorded.tally)


def _print_tally(args: argparse.Namespace, tally: Tally) -> int:
    if args.output_format == "json":
        print_json(tally)
    else:
        print(f"{counted(tally.played, 'command')} answered")
        for name, count in tally.unknown.items():
            print(f"{counted(count, 'command')} not in the file: {name}")
        print("\n".join(tally.changed) or "no write differs from the file")
    return EXIT_DIFFERS if tally.unknown or tally.changed else EXIT_OK


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
