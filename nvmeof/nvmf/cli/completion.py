# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof completion`: the scripts by which shells complete commands, options and values.

The files of shells/ are made of the parser by `./dev manual`.
"""

from __future__ import annotations

import argparse
from importlib.resources import files

from nvmf.cli.base import EXIT_OK, Subparsers, add_command

SHELLS = ("bash", "zsh", "fish")


def add_commands(subparsers: Subparsers) -> None:
    """completion."""
    parser = add_command(
        subparsers,
        "completion",
        completion,
        "print the script by which a shell completes the arguments of nvmeof",
        "The package installs the same scripts in share, where shells look for them; this is for\n"
        "other places, or for one session, as in the first examples.",
        examples=(
            'eval "$(nvmeof completion bash)"',
            'eval "$(nvmeof completion zsh)"',
            "nvmeof completion fish | source",
            "nvmeof completion bash > ~/.local/share/bash-completion/completions/nvmeof",
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def completion(args: argparse.Namespace) -> int:
    """Print it."""
    script = script_of(args.shell)
    if args.output_format == "json":
        from nvmf.cli.output import print_json

        print_json({"shell": args.shell, "script": script})
    else:
        print(script, end="")
    return EXIT_OK


def script_of(shell: str) -> str:
    """The script for a shell."""
    return files("nvmf.cli").joinpath("shells", f"nvmeof.{shell}").read_text(encoding="utf-8")
