# SPDX-License-Identifier: BSD-3-Clause
"""Every help text ends with examples, and the examples are valid commands."""

from __future__ import annotations

import argparse

import pytest

from manual.commands import children, every_parser
from nvmf.cli.app import make_parser
from nvmf.cli.base import Command
from nvmf.spec.nqn import validate_nqn
from support import shellwords

PARSERS = {parser.prog: parser for parser in every_parser()}
EVERY = make_parser(every=True)


def test_all_commands_are_walked() -> None:
    assert {"nvmeof", "nvmeof target", "nvmeof target namespace add", "nvmeof top"} <= set(PARSERS)
    assert all(isinstance(parser, Command) for parser in PARSERS.values())


@pytest.mark.parametrize("name", PARSERS)
def test_help_ends_with_examples(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, end = PARSERS[name].format_help().rsplit("\nexamples:\n", 1)
    lines = end.splitlines()
    assert lines
    assert all(line.startswith("  ") for line in lines)
    assert [line[2:] for line in lines] == list(PARSERS[name].examples)


@pytest.mark.parametrize("name", PARSERS)
def test_examples_can_be_typed(name: str) -> None:
    """The parser accepts each example as a call of this command or one in its group; NQNs are
    valid.
    """
    for line in PARSERS[name].examples:
        called = list(shellwords.calls(line))
        assert called, line
        for words in called:
            args = EVERY.parse_args(words)
            if children(PARSERS[name]):
                assert args.parser.prog.startswith(f"{name} "), line
            else:
                assert args.parser.prog == name, line
            for word in words:
                for nqn in filter(lambda part: part.startswith("nqn."), word.split("/")):
                    assert validate_nqn(nqn) == nqn


def test_an_example_that_is_wrong_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = shellwords.calls("(umask 077; sudo nvmeof read --no-such-option > file)")
    assert words == ["read", "--no-such-option"]
    with pytest.raises(SystemExit):
        EVERY.parse_args(words)
    assert "--no-such-option" in capsys.readouterr().err


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_has_help(name: str) -> None:
    for action in PARSERS[name]._actions:
        if not isinstance(action, argparse._SubParsersAction):
            assert action.help, f"{name} {action.dest}"


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", PARSERS)
def test_help_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> None:
    """No line is too long, except lines that name an option, and those that cannot be wrapped."""
    monkeypatch.setenv("COLUMNS", str(columns))
    text = PARSERS[name].format_help()
    lines = text.rsplit("\nexamples:\n", 1)
    for line in lines[0].splitlines():
        assert len(line) <= columns or line.lstrip().startswith(("-", "[", "(", "{")), line
    joined = lines[1].replace(" \\\n     ", "")
    assert [line.strip() for line in joined.splitlines()] == list(PARSERS[name].examples)
