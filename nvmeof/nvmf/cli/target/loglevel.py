# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target log-level`: the level of a running target's log."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers
from nvmf.cli.target.client import add_rpc_command, target
from nvmf.cli.target.done import done


def add_commands(subparsers: Subparsers) -> None:
    """Add target log-level."""
    parser = add_rpc_command(
        subparsers,
        "log-level",
        log_level,
        "show or set the minimum level of the log, until the target ends",
        examples=("nvmeof target log-level debug", "nvmeof target log-level"),
    )
    parser.add_argument(
        "level",
        metavar="LEVEL",
        nargs="?",
        choices=("debug", "info", "warning", "error"),
        help="debug, info, warning or error (default: only show the level)",
    )


def log_level(args: argparse.Namespace) -> int:
    """Show or set the level."""
    with target(args) as rpc:
        level = rpc.log_level(level=args.level)
    done(args, f"log level: {level}", level=level)
    return EXIT_OK
