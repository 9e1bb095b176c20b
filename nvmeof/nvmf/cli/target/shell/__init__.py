# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target shell`: nvmetcli's shell for a running target.

``session`` has the objects of the target as a tree of tables, ``nodes`` the places in it and what
can be done there, ``words`` attributes and their values, ``loop`` reads lines and completes them.
"""

from __future__ import annotations

import argparse
import sys

from nvmf.cli.base import EXIT_OK, Subparsers, stdin_lines
from nvmf.cli.target.client import add_rpc_command

_MORE = """\
The commands are those of nvmetcli: ls, cd, pwd, create, delete, set, get, enable, disable, help,
exit. A path before a command is the place where it runs. Each change is applied at once; saveconfig
writes the configuration file. Tab completes, Ctrl-C discards a line, Ctrl-D ends the shell.

Commands from a pipe or file end at the first failure, with its line and exit status 1."""


def add_commands(subparsers: Subparsers) -> None:
    """Add target shell."""
    parser = add_rpc_command(
        subparsers,
        "shell",
        shell,
        "administer a running target as with nvmetcli, in a shell with completion",
        _MORE,
        examples=(
            "nvmeof target shell",
            "nvmeof target shell /subsystems create nqn.2026-01.example:lab",
            "nvmeof target shell < commands.txt",
        ),
    )
    parser.add_argument(
        "words",
        metavar="COMMAND",
        nargs="*",
        help="a command to run, with its path and arguments (default: read commands)",
    )


def shell(args: argparse.Namespace) -> int:
    """Run a command, commands from a pipe, or a shell on the terminal."""
    from nvmf.cli.target.shell.loop import Shell

    made = Shell(args)
    if args.words:
        made.run(list(args.words))
    elif sys.stdin.isatty():
        made.talk()
    else:
        made.read(stdin_lines())
    made.leave()
    return EXIT_OK
