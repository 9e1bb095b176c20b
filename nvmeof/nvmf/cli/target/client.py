# SPDX-License-Identifier: BSD-3-Clause
"""The socket of a running target, for commands: one request, one answer."""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nvmf.cli.base import CliError, Command, Subparsers, UsageError, add_command
from nvmf.paths import default_socket

ANSWER_TIMEOUT = 120.0
"""Seconds for an answer: stores may take their time to open."""
_ERROR_INTERNAL = -32603


def add_rpc_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    more: str = "",
    *,
    examples: Sequence[str],
) -> Command:
    """A command about a running target."""
    parser = add_command(subparsers, name, run, summary, more, examples=examples)
    parser.add_argument(
        "--rpc-socket",
        metavar="PATH",
        help="where the target is administered (default: target.sock of $RUNTIME_DIRECTORY, "
        "/run/nvmeof or $XDG_RUNTIME_DIR/nvmeof)",
    )
    return parser


def add_group(
    subparsers: Subparsers, name: str, summary: str, *, examples: Sequence[str]
) -> Subparsers:
    """Commands about one kind of thing."""
    text = summary[0].upper() + summary[1:] + "."
    group = subparsers.add_parser(name, help=summary, description=text, examples=examples)
    found: Subparsers = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return found


def call(args: argparse.Namespace, method: str, **params: Any) -> Any:
    """The result of a method; CliError with what the target said, or that it cannot be asked.

    Parameters that are None are left out.
    """
    path = socket_path(args)
    known = {key: value for key, value in params.items() if value is not None}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": known}
    try:
        answer = _exchange(path, json.dumps(request).encode())
    except TimeoutError:
        raise CliError(
            f"the target at {path} has not answered within {ANSWER_TIMEOUT:g} s; it may still do "
            "what was asked: target ls shows it"
        ) from None
    except OSError as error:
        hint = "start one with target serve, or give its socket with --rpc-socket"
        if isinstance(error, PermissionError):
            hint = "it answers to the user that it runs as, and to root"
        raise CliError(
            f"no target can be asked at {path}: {error.strerror or error}; {hint}"
        ) from None
    match answer:
        case {"error": {"message": str(sentence)}}:
            raise CliError(sentence)
        case {"result": result}:
            return result
    raise CliError(f"what answers at {path} is no target")


def socket_path(args: argparse.Namespace) -> Path:
    """Where the target is asked."""
    if args.rpc_socket == "":  # as of a variable of the shell that is not set
        raise UsageError("--rpc-socket is empty")
    path = Path(args.rpc_socket) if args.rpc_socket is not None else default_socket()
    if path is None:
        raise CliError("where the target is administered is not known: give --rpc-socket PATH")
    return path


def _exchange(path: Path, request: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(ANSWER_TIMEOUT)
        sock.connect(str(path))
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while piece := sock.recv(1 << 18):
            answer += piece
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CliError(f"what answers at {path} is no target, or it has ended meanwhile")
    return found
