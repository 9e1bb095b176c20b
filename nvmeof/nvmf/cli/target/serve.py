# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target serve`: its arguments; what it does is in serving.py, loaded when it is called."""

from __future__ import annotations

import argparse

from nvmf.cli.base import Subparsers, add_command


def add_commands(subparsers: Subparsers) -> None:
    """target serve."""
    parser = add_command(
        subparsers,
        "serve",
        serve,
        "serve what a configuration describes, until SIGINT or SIGTERM",
        "Prints a line `listening on ADDRESS:PORT (DEVICE)` for each port once it is open; with\n"
        "-o json it is an object with traddr, trsvcid and device. SIGHUP reads the file again.",
        examples=(
            "nvmeof target serve target.toml",
            "nvmeof target serve target.toml --rpc-socket /tmp/target.sock --log-level debug",
        ),
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file; see config check")
    parser.add_argument(
        "--rpc-socket",
        metavar="PATH",
        help="where it is administered (default: socket in [rpc], or target.sock of "
        "$RUNTIME_DIRECTORY, /run/nvmeof or $XDG_RUNTIME_DIR/nvmeof)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="how much goes to stderr (default: info)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json", "journal"),
        help="a sentence a line, or an object with the fields of the line (timestamp, level, peer, "
        "hostnqn, subnqn, cntlid, qid, status), or the same as fields of systemd's journal "
        "(default: text, or journal where stderr is connected to it)",
    )


def serve(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from nvmf.cli.target.serving import run

    return run(args)
