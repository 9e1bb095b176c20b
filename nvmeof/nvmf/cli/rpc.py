# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof rpc`: calls a method of a running target by its name on the wire."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, stdin_text
from nvmf.cli.output import print_json
from nvmf.cli.target.client import add_rpc_command, target
from nvmf.json import JSON
from nvmf.rpc.methods import METHODS

_NARROWEST = 20
"""Columns of a summary, at least."""


def add_commands(subparsers: Subparsers) -> None:
    """Add rpc."""
    parser = add_rpc_command(
        subparsers,
        "rpc",
        rpc,
        "call an RPC method of a running target",
        "PARAMETERS is a JSON object; - reads it from stdin. The result is printed as JSON.",
        examples=(
            "nvmeof rpc --list",
            "nvmeof rpc nvmf_get_subsystems",
            'nvmeof rpc target_resize_ns \'{"nqn": "nqn.2026-01.example:disk", "nsid": 1}\'',
        ),
    )
    parser.add_argument(
        "--list", action="store_true", help="list all methods; needs no running target"
    )
    parser.add_argument("method", metavar="METHOD", nargs="?", help="name of a method")
    parser.add_argument(
        "parameters", metavar="PARAMETERS", nargs="?", help="parameters (default: none)"
    )


def rpc(args: argparse.Namespace) -> int:
    """Call a method, or list all."""
    if args.list:
        if args.method is not None:
            raise UsageError("--list lists all methods: it cannot be combined with a method")
        _print_methods(args)
        return EXIT_OK
    if args.method is None:
        raise UsageError("specify a method: nvmeof rpc --list lists all")
    parameters = _parsed(args.parameters)
    with target(args) as client:
        result = client.request(args.method, parameters)
    print_json(result)
    return EXIT_OK


def _print_methods(args: argparse.Namespace) -> None:
    if args.output_format == "json":
        print_json(METHODS)
        return
    indent = max(map(len, METHODS)) + 2
    terminal = sys.stdout.isatty()
    columns = max(shutil.get_terminal_size().columns, indent + _NARROWEST)
    for name, summary in METHODS.items():
        line = f"{name:<{indent}}{summary}"
        print(textwrap.fill(line, columns, subsequent_indent=" " * indent) if terminal else line)


def _parsed(text: str | None) -> dict[str, JSON]:
    """Return the parameters of the command line as a JSON object."""
    if text is None:
        return {}
    try:
        found: JSON = json.loads(stdin_text() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the parameters are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError('the parameters must be a JSON object, such as {"nqn": "..."}')
    return found
