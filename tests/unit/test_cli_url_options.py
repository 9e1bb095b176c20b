# SPDX-License-Identifier: BSD-3-Clause
"""The table of URL options in --help names flags of the command, with the same meaning."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from nvmf.cli.app import make_parser
from nvmf.initiator.base.options import OPTIONS


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the commands that take a URL with options."""
    if parser.epilog and "options of a URL" in parser.epilog:
        yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from commands(one)


URL_COMMANDS = {one.prog: one for one in commands(make_parser(every=True))}


@pytest.mark.parametrize("prog", sorted(URL_COMMANDS))
def test_flags_of_the_table(prog: str) -> None:
    parser = URL_COMMANDS[prog]
    meanings = {flag: one.dest for one in parser._actions for flag in one.option_strings}
    lines = re.findall(r"^  (\w+) +.* \((-[-\w]+)\)$", parser.epilog or "", re.MULTILINE)
    assert lines
    for name, flag in lines:
        assert meanings[flag] == OPTIONS[name].argument, (name, flag)


def test_commands_that_have_short_flags_of_their_own() -> None:
    assert "reconnect (--reconnect-delay)" in (URL_COMMANDS["nvmeof write"].epilog or "")
    assert "reconnect (-c)" in (URL_COMMANDS["nvmeof id-ns"].epilog or "")
