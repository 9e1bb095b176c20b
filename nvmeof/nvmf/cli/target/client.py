# SPDX-License-Identifier: BSD-3-Clause
"""The connection of a command to a running target."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nvmf.cli.base import CliError, Command, Subparsers, UsageError, add_command
from nvmf.paths import default_socket

if TYPE_CHECKING:
    from nvmf.rpc.sync import SyncClient


def add_rpc_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    more: str = "",
    *,
    examples: Sequence[str],
) -> Command:
    """Add a command for a running target."""
    parser = add_command(subparsers, name, run, summary, more, examples=examples)
    parser.add_argument(
        "--rpc-socket",
        metavar="PATH",
        help="administration socket of the target (default: target.sock in $RUNTIME_DIRECTORY, "
        "/run/nvmeof or $XDG_RUNTIME_DIR/nvmeof)",
    )
    return parser


def add_group(
    subparsers: Subparsers, name: str, summary: str, *, examples: Sequence[str]
) -> Subparsers:
    """Add a group of commands."""
    text = summary[0].upper() + summary[1:] + "."
    group = subparsers.add_parser(name, help=summary, description=text, examples=examples)
    found: Subparsers = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return found


@contextmanager
def target(args: argparse.Namespace) -> Iterator[SyncClient]:
    """Connect to the target; raise CliError with its message if it refuses a request."""
    from nvmf.rpc.errors import ClientError
    from nvmf.rpc.sync import connect

    try:
        with connect(socket_path(args)) as rpc:
            yield rpc
    except ClientError as error:
        raise CliError(str(error)) from None


def socket_path(args: argparse.Namespace) -> Path:
    """Return the path of the administration socket."""
    if args.rpc_socket == "":  # such as from an unset shell variable
        raise UsageError("--rpc-socket is empty")
    path = Path(args.rpc_socket) if args.rpc_socket is not None else default_socket()
    if path is None:
        raise CliError("the administration socket is unknown: specify --rpc-socket PATH")
    return path
