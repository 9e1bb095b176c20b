# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target serve`: its arguments; serving.py implements it, and is imported when called."""

from __future__ import annotations

import argparse

from nvmf.cli.base import Subparsers, add_command


def add_commands(subparsers: Subparsers) -> None:
    """Add target serve."""
    parser = add_command(
        subparsers,
        "serve",
        serve,
        "serve a configuration until SIGINT or SIGTERM",
        "Prints a line `listening on ADDRESS:PORT (DEVICE)` for each port once it is open; with\n"
        "-o json it is an object with traddr, trsvcid and device. SIGHUP reloads the file.",
        examples=(
            "nvmeof target serve target.toml",
            "nvmeof target serve target.toml --rpc-socket /tmp/target.sock --log-level debug",
        ),
    )
    parser.add_argument("config", metavar="CONFIG", help="a TOML file; see config check")
    parser.add_argument(
        "--rpc-socket",
        metavar="PATH",
        help="administration socket (default: socket in [rpc], or target.sock in "
        "$RUNTIME_DIRECTORY, /run/nvmeof or $XDG_RUNTIME_DIR/nvmeof)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="minimum level of log messages (default: info)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json", "journal"),
        help="log format: one message per line, or one JSON object per line (timestamp, level, "
        "peer, hostnqn, subnqn, cntlid, qid, status), or the same fields in systemd's journal "
        "(default: text, or journal if stderr is connected to it)",
    )


def serve(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from nvmf.cli.target.serving import run

    return run(args)
