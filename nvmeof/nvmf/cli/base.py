# SPDX-License-Identifier: BSD-3-Clause
"""Base of all subcommands, which loads only argparse."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import math
import os
import re
import select
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from nvmf.errors import Error
from nvmf.spec.nqn import is_valid_nqn, nqn_advice

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
EXIT_INTERRUPTED, EXIT_NO_READER, EXIT_TERMINATED = 130, 141, 143
"""Exit statuses, as a shell reports the end by SIGINT, SIGPIPE and SIGTERM."""
EXIT_DIFFERS, EXIT_TROUBLE = 1, 2
"""Exit statuses of commands that compare, as of cmp(1)."""
VERBOSE_HELP = "show more, such as connections, retries and failed commands (-vv: everything)"
NSID_MOST = 0xFFFFFFFF
"""Maximum of a field for a namespace; some commands take it for all namespaces."""
_FORMATS = ("normal", "json")
_WIDEST, _NARROWEST = 120, 40
_PIPED = 100
"""Columns of --help: those of the terminal within these limits, or for a pipe."""
_SECONDS = {None: 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of time."""


class UsageError(Error):
    """The command was called incorrectly: exit status 2."""


class CliError(Error):
    """The command failed, with a message for the user: exit status 1, or a different one."""

    def __init__(self, sentence: str, status: int = EXIT_FAILED) -> None:
        super().__init__(sentence)
        self.status = status


class Differs(Error):
    """A comparison found a difference: exit status 1, while other failures have 2."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which is handled like an interrupt: exit status 143."""


class Failures:
    """How the running command reports failures."""

    as_json = False
    """-o json was given: print an object on stdout too, unless the command has printed one."""


def complain(prog: str, sentence: str, status: int) -> int:
    """Print a message on stderr, and with -o json also {"error", "status"} on stdout.

    Returns:
        The status.
    """
    Line.clear()
    lines = "\n".join(printable(line) for line in sentence.split("\n"))
    print(f"{prog}: {lines}", file=sys.stderr)
    if Failures.as_json:
        Failures.as_json = False
        print(json.dumps({"error": sentence, "status": status}), flush=True)
    return status


class Line:
    """A line on a terminal that the next one replaces, for the attempts to reconnect."""

    _shown = False

    @classmethod
    def show(cls, text: str) -> None:
        """Show text, as far as it fits, in place of the previous text."""
        columns = shutil.get_terminal_size().columns
        text = printable(text)
        sys.stderr.write("\r\x1b[K" + (text if len(text) < columns else f"{text[: columns - 2]}…"))
        sys.stderr.flush()
        cls._shown = True

    @classmethod
    def clear(cls) -> None:
        """Remove the line, before something else is printed."""
        if cls._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            cls._shown = False


def warn_of_names(*nqns: str | None) -> None:
    """Print a line on stderr for each NQN given that does not have a form of the specification."""
    for nqn in nqns:
        if nqn is not None and is_valid_nqn(nqn) and (said := nqn_advice(nqn)):
            print(f"warning: {printable(said)}", file=sys.stderr)


def drop_stdout() -> None:
    """Prevent a second failure, when Python flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_or_stdin(name: str) -> str:
    """Return the text of a file, or of stdin for -; raise OSError, also for a device."""
    if name == "-":
        return stdin_text()
    from pathlib import Path

    from nvmf.paths import refuse_device

    refuse_device(Path(name))
    return Path(name).read_text()


def stdin_text() -> str:
    """Return the text of stdin to its end, also if reads of it do not block; raise OSError."""
    return "".join(stdin_lines())


def stdin_lines() -> Iterator[str]:
    """Return the lines of stdin to its end, also if reads of it do not block; raise OSError."""
    try:
        number = sys.stdin.fileno()
        if os.get_blocking(number):
            yield from sys.stdin
            return
    except io.UnsupportedOperation:  # not a file
        yield from sys.stdin
        return
    yield from io.TextIOWrapper(
        io.BufferedReader(_Patient(number)), sys.stdin.encoding, sys.stdin.errors
    )


class _Patient(io.RawIOBase):
    """Reads a descriptor, and waits for its data even if reads of it do not block."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._data = select.poll()
        self._data.register(number, select.POLLIN)

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read up to as many bytes as the buffer has; 0 at the end."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return os.readv(self._number, [buffer])
            self._data.poll()


def printable(text: str) -> str:
    """Escape control characters in text from a peer, for output to a terminal."""
    if text.isprintable():  # nearly always, and a discovery log has a million texts
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Subparsers(Protocol):
    """The interface of argparse for subcommands."""

    def add_parser(self, name: str, **options: Any) -> Command:
        """Add a subcommand."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs to the width of the terminal, and leaves room for long options."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size((_PIPED, 24)).columns
        width = min(max(columns, _NARROWEST), _WIDEST) - 2
        super().__init__(prog, max_help_position=min(34, width // 3), width=width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return the text filled; an indented line is a list item, with a name and a meaning."""
        found: list[str] = []
        for block in text.split("\n\n"):
            lines: list[str] = []
            for line in block.splitlines():
                apart = not lines or lines[-1].endswith(":") or lines[-1].startswith(" ")
                if apart or line.startswith(" "):
                    lines.append(line)
                else:
                    lines[-1] += f" {line}"
            found.append("\n".join(self._filled(line, width, indent) for line in lines))
        return "\n\n".join(found)

    def _filled(self, line: str, width: int, indent: str) -> str:
        item = re.match(r" +\S+ {2,}", line)
        under = " " * min(len(item[0]), width // 3) if item else ""
        return textwrap.fill(
            line,
            width,
            initial_indent=indent,
            subsequent_indent=indent + under,
            drop_whitespace=True,
            break_long_words=False,
            break_on_hyphens=False,
        )


class Command(argparse.ArgumentParser):
    """A command, or a group of commands, whose help ends with examples."""

    def __init__(self, *, examples: Sequence[str] = (), **options: Any) -> None:
        options = {"formatter_class": Formatter, "allow_abbrev": False, **options}
        super().__init__(**options)
        self.examples = tuple(examples)
        """Shell command lines, each with the command or one of its group."""

    def error(self, message: str) -> NoReturn:
        """Print one line with a hint, and exit with status 2."""
        found = re.search(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found:
            known = re.findall(r"'([^']*)'", found[2]) or found[2].split(", ")
            close = difflib.get_close_matches(found[1], known, 2)
            message = f"unknown command {found[1]!r}"
            if found[1] in _FORMATS:
                message += f": -o {found[1]} comes after the command"
            elif close:
                message += f": did you mean {' or '.join(close)}?"
        sys.exit(complain(self.prog, usage_hint(message, self.prog), EXIT_USAGE))

    def format_help(self) -> str:
        """Return usage, description, arguments, epilog and examples."""
        text = super().format_help()
        if not self.examples:  # command not loaded: see make_parser
            return text
        width = shutil.get_terminal_size((_PIPED, 24)).columns - 4
        lines = [line for example in self.examples for line in _folded(example, width)]
        return "\n".join([text, "examples:", *(f"  {line}" for line in lines), ""])


def _folded(command: str, width: int) -> list[str]:
    """Return a shell command as lines that end with a backslash, if it does not fit into one."""
    if len(command) <= max(width, _NARROWEST):
        return [command]
    lines = textwrap.wrap(
        command,
        max(width, _NARROWEST) - 2,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def usage_hint(message: str, prog: str) -> str:
    """Return the message of a usage error, with the way to the usage."""
    return message if "--help" in message else f"{message} (see {prog} --help)"


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    more: str = "",
    *,
    examples: Sequence[str],
) -> Command:
    """Add a subcommand with -o and -v; the caller adds its other arguments."""
    text = summary[0].upper() + summary[1:] + "."
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{text}\n\n{more}".rstrip(),
        examples=examples,
    )
    parser.set_defaults(run=run, parser=parser)
    parser.add_argument(
        "-v", "--verbose", action="count", default=argparse.SUPPRESS, help=VERBOSE_HELP
    )
    parser.add_argument(
        "-o",
        "--output-format",
        choices=_FORMATS,
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


def count_argument(text: str) -> int:
    """Parse a positive integer, decimal or 0x hexadecimal; for argparse."""
    value = number_argument(text)
    if not value:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def number_argument(text: str) -> int:
    """Parse a non-negative integer, decimal or 0x hexadecimal; for argparse."""
    try:
        value = int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def nsid_argument(text: str) -> int:
    """Parse a namespace identifier; for argparse."""
    value = number_argument(text)
    if value > NSID_MOST:
        raise argparse.ArgumentTypeError(f"{text} is not 0 to {NSID_MOST:#x}")
    return value


def seconds_argument(text: str) -> float:
    """Parse a time in seconds, such as 5, 0.5, 10s, 500ms, 2m or 1h; for argparse."""
    found = re.fullmatch(r"(.*?)(us|ms|s|m|h|d)?", text, re.DOTALL)
    try:
        value = float(found[1] if found else text)
        if not math.isfinite(value):
            raise ValueError(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 5 (seconds), 0.5, 10s, 500ms or 2m"
        ) from None
    return value * _SECONDS[found[2] if found else None]
