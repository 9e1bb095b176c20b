# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target serve`: run a target in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal

from nvmf.cli.common import EXIT_OK, CliError, Formatter, Subparsers, add_command

log = logging.getLogger(__name__)


def add_commands(subparsers: Subparsers) -> None:
    """target serve."""
    group = subparsers.add_parser("target", help="run a target", formatter_class=Formatter)
    commands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(
        commands,
        "serve",
        serve,
        "serve what a configuration describes, until SIGINT or SIGTERM",
        "Prints a line `listening on ADDRESS:PORT (DEVICE)` for each port once it is open; with\n"
        "-o json it is an object with traddr, trsvcid and device.",
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file; see config check")
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="how much goes to stderr (default: info)",
    )


def serve(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from nvmf.config import ConfigError, advice, load

    level = getattr(logging, args.log_level.upper())
    logging.getLogger().setLevel(min(level, logging.DEBUG) if args.verbose > 1 else level)
    try:
        config = load(args.config)
    except ConfigError as error:
        raise CliError(f"the configuration cannot be used:\n{error}") from None
    for sentence in advice(config, args.config):
        log.warning("%s: %s", args.config, sentence)
    from nvmf.target.server import Listening, Server
    from nvmf.target.stores import ServerError

    def announce(port: Listening) -> None:
        if args.output_format == "json":
            host, number = port.address
            record = {"traddr": host, "trsvcid": str(number), "device": port.device}
            print(json.dumps(record), flush=True)
        else:
            print(port, flush=True)

    async def run() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        server = Server(config, listening=announce)
        try:
            starting = asyncio.ensure_future(server.start())
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
            elif starting.exception() is not None:
                stopping.cancel()
            await starting
            await stopping
            log.info("stopping")
        except asyncio.CancelledError:
            pass
        finally:
            await server.stop()
        return EXIT_OK

    try:
        return asyncio.run(run())
    except ServerError as error:
        raise CliError(str(error)) from None
