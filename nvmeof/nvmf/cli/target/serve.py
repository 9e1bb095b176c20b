# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target serve`: its arguments; serving.py implements it, and is imported when called."""

from __future__ import annotations

import argparse
import gc

from nvmf.cli.base import Subparsers, add_command, number_argument, size_argument
from nvmf.cli.target.pystore import add_stores


def add_commands(subparsers: Subparsers) -> None:
    """Add target serve."""
    parser = add_command(
        subparsers,
        "serve",
        serve,
        "serve a configuration, or memory or files, until SIGINT or SIGTERM",
        "Prints a line `listening on ADDRESS:PORT (DEVICE)` for each port once it is open; with\n"
        "-o json it is an object with traddr, trsvcid and device. SIGHUP reloads the file.",
        examples=(
            "nvmeof target serve target.toml",
            "nvmeof target serve --ram 1GiB",
            "nvmeof target serve --python mypackage.stores:Archive --option url=https://a.example",
            "nvmeof target serve target.toml --rpc-socket /tmp/target.sock --log-level debug",
        ),
    )
    parser.add_argument(
        "config",
        metavar="CONFIG",
        nargs="?",
        help="a TOML file, or - for stdin; see config check (default: the options below)",
    )
    group = parser.add_argument_group(
        "serving without a configuration",
        "One subsystem for all hosts. Each --ram, --file, --pmem or --python is a namespace.",
    )
    group.add_argument(
        "--ram", metavar="SIZE", type=size_argument, action="append", help="memory, such as 1GiB"
    )
    group.add_argument("--file", metavar="PATH", action="append", help="file or block device")
    group.add_argument("--pmem", metavar="PATH", action="append", help="persistent memory")
    add_stores(group)
    group.add_argument("-n", "--nqn", metavar="NQN", help="NQN (default: nqn.2026-01.example:disk)")
    group.add_argument(
        "-a", "--traddr", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    group.add_argument(
        "-s", "--trsvcid", metavar="PORT", type=number_argument, help="port (default: 4420)"
    )
    group.add_argument(
        "--force",
        action="store_true",
        help="serve --ram even if it is more than this machine's memory",
    )
    parser.add_argument(
        "--allow-faults",
        action="store_true",
        help="allow faults on purpose (target fault), as allow_faults in [target]",
    )
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
    gc.disable()  # nothing that an import makes is garbage, and a tenth of its time is the search
    from nvmf.cli.target.serving import run

    gc.freeze()
    gc.enable()

    return run(args)
