# SPDX-License-Identifier: BSD-3-Clause
"""Client of a running target's socket, for commands: one request, one response."""

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
"""Maximum seconds to wait for a response: opening stores may take long."""
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


def call(args: argparse.Namespace, method: str, **params: Any) -> Any:
    """Return the result of a method; raise CliError with the target's message, or on no response.

    Parameters that are None are omitted.
    """
    path = socket_path(args)
    known = {key: value for key, value in params.items() if value is not None}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": known}
    try:
        answer = _exchange(path, json.dumps(request).encode())
    except TimeoutError:
        raise CliError(
            f"the target at {path} has not answered within {ANSWER_TIMEOUT:g} s; it may still "
            "complete the request: check with target ls"
        ) from None
    except OSError as error:
        hint = "start one with target serve, or specify its socket with --rpc-socket"
        if isinstance(error, PermissionError):
            hint = "only root and the user that runs the target have access"
        raise CliError(
            f"cannot connect to a target at {path}: {error.strerror or error}; {hint}"
        ) from None
    match answer:
        case {"error": {"message": str(sentence)}}:
            raise CliError(sentence)
        case {"result": result}:
            return result
    raise CliError(f"the server at {path} is not a target")


def socket_path(args: argparse.Namespace) -> Path:
    """Return the path of the administration socket."""
    if args.rpc_socket == "":  # such as from an unset shell variable
        raise UsageError("--rpc-socket is empty")
    path = Path(args.rpc_socket) if args.rpc_socket is not None else default_socket()
    if path is None:
        raise CliError("the administration socket is unknown: specify --rpc-socket PATH")
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
        raise CliError(f"the server at {path} is not a target, or has stopped")
    return found
