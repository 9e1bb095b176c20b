# SPDX-License-Identifier: BSD-3-Clause
"""Base of all subcommands, which loads only argparse."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2


class UsageError(Exception):
    """The command was called incorrectly: exit status 2."""


class CliError(Exception):
    """The command failed, with a message for the user: exit status 1."""


def drop_stdout() -> None:
    """Prevent a second failure, when Python flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Escape control characters in text from a peer, for output to a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Subparsers(Protocol):
    """The interface of argparse for subcommands."""

    def add_parser(self, name: str, **options: Any) -> Command:
        """Add a subcommand."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps paragraphs as written, and leaves room for long options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=98)


class Command(argparse.ArgumentParser):
    """A command, or a group of commands, whose help ends with examples."""

    def __init__(self, *, examples: Sequence[str] = (), **options: Any) -> None:
        defaults: dict[str, Any] = {"formatter_class": Formatter, "allow_abbrev": False}
        super().__init__(**{**defaults, **options})
        self.examples = tuple(examples)
        """Shell command lines, each with the command or one of its group."""

    def format_help(self) -> str:
        """Return usage, description, arguments, epilog and examples."""
        text = super().format_help()
        if not self.examples:  # command not loaded: see make_parser
            return text
        return "\n".join([text, "examples:", *(f"  {line}" for line in self.examples), ""])


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    more: str = "",
    *,
    examples: Sequence[str],
) -> Command:
    """Add a subcommand with -o; the caller adds its other arguments."""
    text = summary[0].upper() + summary[1:] + "."
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{text}\n\n{more}".rstrip(),
        examples=examples,
    )
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument(
        "-o",
        "--output-format",
        choices=("normal", "json"),
        default="normal",
        help="output format (default: normal)",
    )
    return parser


def size_argument(text: str) -> int:
    """Parse a size in bytes, such as 4096, 4k or 1MiB; for argparse."""
    from nvmf.config.units import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def number_argument(text: str) -> int:
    """Parse a non-negative integer, decimal or 0x hexadecimal; for argparse."""
    try:
        value = int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value
