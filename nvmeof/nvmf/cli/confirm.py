# SPDX-License-Identifier: BSD-3-Clause
"""Confirmation of a command that destroys data or cannot be undone."""

from __future__ import annotations

import sys

from nvmf.cli.base import CliError, UsageError


def confirm(warning: str) -> None:
    """Ask for "yes" on the terminal after the warning, a sentence.

    Raises:
        UsageError: stdin or stderr is no terminal, so that --force is required.
        CliError: The answer is not yes.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{warning} Use --force to confirm")
    try:
        sys.stderr.write(f"{warning}\nType yes to continue: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise
    if answer.strip().lower() != "yes":
        raise CliError("not confirmed: nothing was changed")
