# SPDX-License-Identifier: BSD-3-Clause
"""A command loads only the modules that it needs: checks the modules, not the time."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from nvmf.cli.app import COMMANDS, make_parser
from nvmf.cli.main import main

HEAVY = {
    "asyncio",
    "nvmf.config",
    "nvmf.doctor",
    "nvmf.engine",
    "nvmf.initiator.client.controller",
    "nvmf.target",
    "prometheus_client",
    "pydantic",
    "pyudev",
    "pyverbs",
    "rich",
    "tomlkit",
    "zeroconf",
}
"""Modules that take long to load."""
_PROGRAM = """
import contextlib, io, json, sys
from nvmf.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        main(sys.argv[1:])
    except SystemExit:
        pass
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*words: str) -> set[str]:
    """Return the modules of HEAVY that are loaded when a command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, timeout=120, check=True
    )
    return HEAVY.intersection(json.loads(done.stdout))


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("nonsense",),
        ("target", "--help"),
        ("target", "ls", "--help"),
        ("target", "ls", "--rpc-socket", "/nowhere/at.all"),
        ("config", "--help"),
        ("list",),
        ("list", "-o", "json"),
        ("list-subsys",),
        ("disconnect", "--help"),
    ],
    ids=" ".join,
)
def test_what_a_command_loads(words: tuple[str, ...]) -> None:
    assert loaded(*words) == set()


def _summaries(parser: argparse.ArgumentParser) -> dict[str, str | None]:
    (action,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return {choice.dest: choice.help for choice in action._choices_actions}


@pytest.mark.parametrize("module", COMMANDS)
def test_help_says_what_commands_say(module: str) -> None:
    """The table and the modules have the same commands, with the same descriptions."""
    plain = _summaries(make_parser())
    for name in COMMANDS[module]:
        full = _summaries(make_parser(name))
        assert full == plain
        assert list(full) == list(plain)


def test_a_library_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wheel on a machine without liburing: a sentence names the library and the package."""

    def run(argv: object) -> int:
        raise ImportError("liburing.so.2: cannot open shared object file: No such file")

    monkeypatch.setattr("nvmf.cli.app.run", run)
    assert main(["devices"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("nvmeof: cannot load the engine: the library liburing.so.2 is missing;")
    assert "apt-get install liburing2" in said
