# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of commands that send admin commands over a connection of their own."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable

from nvmf.cli.base import EXIT_OK, Command, Subparsers, add_command
from nvmf.cli.common import (
    add_place_arguments,
    add_secret_arguments,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.connectflags import IDENTITY, add_flags, url_options_help
from nvmf.cli.identify import EXAMPLE
from nvmf.initiator import Controller, connect


def add_admin_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    more: str = "",
    *,
    flags: str = "",
) -> Command:
    """Add a command with the location, the host and its keys; flags: those of its example."""
    example = EXAMPLE.format(f"{name} {flags}".rstrip())
    parser = add_command(subparsers, name, run, summary, more, examples=(example,))
    add_place_arguments(parser)
    group = parser.add_argument_group("host")
    add_flags(group, IDENTITY)
    add_secret_arguments(parser)
    parser.epilog = url_options_help(parser)
    return parser


def on_controller(args: argparse.Namespace, work: Callable[[Controller], Awaitable[None]]) -> int:
    """Connect, run work and disconnect; return the exit status."""
    place = where_of(args)
    options = options_of(args, place, queues=1, ctrl_loss_tmo=0)

    async def run() -> int:
        async with connect(place, options) as controller:
            await work(controller)
        return EXIT_OK

    return run_async(run())
