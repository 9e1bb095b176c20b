# SPDX-License-Identifier: BSD-3-Clause
"""Completion in bash, zsh and fish: every command, option and choice, and words with colons."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from manual.commands import children, every_parser
from manual.tree import SCRIPTS
from nvmf.cli.completion import SHELLS
from nvmf.cli.main import main
from support import shells

NQN = "nqn.2026-01.example:disk"
PARSERS = every_parser()
Ask = Callable[[list[str]], list[list[str]]]


@pytest.fixture(autouse=True)
def running_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that shells ask for its subsystems."""
    program = tmp_path / "bin" / "nvmeof"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'subsystem {NQN}'\necho '└─ namespace 1: ram'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.fixture(params=SHELLS)
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Ask:
    """Ask a shell for the candidates of lines."""
    shell = request.param
    script = SCRIPTS / f"nvmeof.{shell}"
    if shell == "zsh":
        return lambda lines: shells.zsh(script, lines, tmp_path)
    return lambda lines: getattr(shells, shell)(script, lines)


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options that --help shows."""
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return [action for action in shown if action.option_strings]


@pytest.mark.parametrize("shell", SHELLS)
def test_command_prints_the_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    text = (SCRIPTS / f"nvmeof.{shell}").read_text()
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == text
    assert main(["completion", shell, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": shell, "script": text}


@pytest.mark.parametrize(
    ("shell", "program", "wanted"),
    [
        ("bash", 'eval "$(cat $SCRIPT)"; complete -p nvmeof', "-F _nvmeof nvmeof"),
        (
            "zsh",
            'autoload -U compinit; compinit -u -D; eval "$(cat $SCRIPT)"; print $_comps[nvmeof]',
            "_shtab_nvmeof",
        ),
        ("fish", "cat $SCRIPT | source; complete -C'nvmeof completion '", "fish"),
    ],
)
def test_script_is_evaluated(
    shell: str, program: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script is evaluated in a session, as the administrator's guide says."""
    monkeypatch.setenv("SCRIPT", str(SCRIPTS / f"nvmeof.{shell}"))
    quiet = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    done = subprocess.run(
        [shells.need(shell), quiet, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert wanted in done.stdout


def test_commands(ask: Ask) -> None:
    groups = [parser for parser in PARSERS if children(parser)]
    found = ask([f"{parser.prog} " for parser in groups])
    for parser, words in zip(groups, found, strict=True):
        given = {word.split(":")[0] for word in words if not word.startswith("-")}
        assert given == {name for name, _, _ in children(parser)}, parser.prog


def test_options(ask: Ask) -> None:
    """The long and the short options of every command."""
    lines = [f"{p.prog} {dashes}" for p in PARSERS for dashes in ("-", "--")]
    found = ask(lines)
    for number, parser in enumerate(PARSERS):
        words = {*found[2 * number], *found[2 * number + 1]}
        wanted = {flag for action in options(parser) for flag in action.option_strings}
        assert wanted <= words, parser.prog


def test_choices(ask: Ask) -> None:
    """The choices of every option that has them."""
    cases = [
        (f"{parser.prog} {flag} ", [str(choice) for choice in action.choices])
        for parser in PARSERS
        for action in options(parser)
        if action.choices is not None
        for flag in action.option_strings[-1:]
    ]
    assert len(cases) > 50
    found = ask([line for line, _ in cases])
    for (line, wanted), words in zip(cases, found, strict=True):
        assert set(wanted) <= set(words), line


def test_positional_choices(ask: Ask) -> None:
    """Choices are completed also after arguments with colons, which bash divides into several
    words.
    """
    completion, state, ana = ask(
        [
            "nvmeof completion ",
            f"nvmeof target namespace protect {NQN} 1 un",
            "nvmeof target ana set -a 192.0.2.1 non",
        ]
    )
    assert set(completion) == set(SHELLS)
    assert state == ["until-power-cycle"]
    assert ana == ["non-optimized"]


def test_options_after_what_has_colons(ask: Ask) -> None:
    after, value = ask(
        [
            f"nvmeof list-ns nvme+rdma://192.0.2.1:4420/{NQN} --dev",
            f"nvmeof list-ns -n {NQN} --device iw",
        ]
    )
    assert after == ["--device"]
    assert value == ["iwarp"]


def test_files(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target-of-mine.toml").touch()
    found = ask(
        ["nvmeof target serve target-of", "nvmeof write --data target-of", "nvmeof doctor target-o"]
    )
    assert found == [["target-of-mine.toml"]] * 3


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("nvmeof target namespace re", "nvmeof target namespace re"),
        ("nvmeof list-ns --output-f", "nvmeof list-ns --output-format "),
        ("nvmeof list-ns --device=iw", "nvmeof list-ns --device=iwarp "),
        (
            f"nvmeof target namespace protect {NQN} 1 un",
            f"nvmeof target namespace protect {NQN} 1 until-power-cycle ",
        ),
        ("nvmeof target ls --rpc-socket fi", "nvmeof target ls --rpc-socket file-of-mine "),
    ],
)
def test_typed_in_bash(line: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "file-of-mine").touch()
    start = f"PS1='ready''> '; . {SCRIPTS / 'nvmeof.bash'}"
    command = [shells.need("bash"), "--norc", "--noprofile", "-i"]
    assert shells.typed(command, start, line, tmp_path) == wanted


def test_names_of_a_running_target(ask: Ask) -> None:
    new, *others = ask(
        [f"nvmeof target {words} " for words in ("subsystem add", "host allow", "namespace remove")]
    )
    assert NQN not in new
    assert all(NQN in words for words in others)


@pytest.mark.parametrize("typed", ["nqn.2026-01.ex", "nqn.2026-01.example:", NQN[:-2]])
def test_names_with_colons_in_bash(typed: str, tmp_path: Path) -> None:
    """The part before the colon is already there."""
    start = f"PS1='ready''> '; . {SCRIPTS / 'nvmeof.bash'}"
    command = [shells.need("bash"), "--norc", "--noprofile", "-i"]
    done = shells.typed(command, start, f"nvmeof target namespace remove {typed}", tmp_path)
    assert done == f"nvmeof target namespace remove {NQN} "
