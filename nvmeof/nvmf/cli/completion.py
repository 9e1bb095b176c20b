# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof completion`: shell completion scripts for commands, options and values.

`./dev manual` generates the files in shells/ from the parser.
"""

from __future__ import annotations

import argparse
from importlib.resources import files

from nvmf.cli.base import EXIT_OK, Subparsers, add_command

SHELLS = ("bash", "zsh", "fish")


def add_commands(subparsers: Subparsers) -> None:
    """Add completion."""
    parser = add_command(
        subparsers,
        "completion",
        completion,
        "print the shell completion script for nvmeof",
        "The package installs the same scripts in share, where shells find them. Use this\n"
        "command for other locations, or for one session, as in the first examples.",
        examples=(
            'eval "$(nvmeof completion bash)"',
            'eval "$(nvmeof completion zsh)"',
            "nvmeof completion fish | source",
            "nvmeof completion bash > ~/.local/share/bash-completion/completions/nvmeof",
        ),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell to generate the script for")


def completion(args: argparse.Namespace) -> int:
    """Print the script."""
    script = script_of(args.shell)
    if args.output_format == "json":
        from nvmf.cli.output import print_json

        print_json({"shell": args.shell, "script": script})
    else:
        print(script, end="")
    return EXIT_OK


def script_of(shell: str) -> str:
    """Return the script for a shell."""
    return files("nvmf.cli").joinpath("shells", f"nvmeof.{shell}").read_text(encoding="utf-8")
