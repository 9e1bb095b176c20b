# SPDX-License-Identifier: BSD-3-Clause
"""Completions, requested from real shells."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

_PATIENCE = 120.0
_BASH = r"""
source "$1"
while IFS= read -r COMP_LINE; do
  IFS= read -r words
  eval "COMP_WORDS=($words)"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_POINT=${#COMP_LINE}
  COMPREPLY=()
  compopt() { :; }
  "$2"
  printf '%s\n' "${COMPREPLY[@]}" --end--
done
"""
_ZSH = r"""
PS1='ready> ' fpath=($1 $fpath)
autoload -U compinit && compinit -u -D
compadd() {
  local -a found
  if (( ${@[(I)-[a-zA-Z]#[OAD]]} )); then builtin compadd "$@"; return; fi
  builtin compadd -A found "$@"
  print -rl -- $found >>$hits
}
end-of-matches() { print -r -- --end-- >>$hits }
zle -N end-of-matches
bindkey -e
bindkey '^I' complete-word
bindkey '^X^E' end-of-matches
setopt no_auto_list no_list_beep
"""


def need(shell: str) -> str:
    """Return the program's path; skip if it is not installed."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed: ./dev test without arguments installs it")
    return found


def bash(script: Path, lines: list[str]) -> list[list[str]]:
    """Return bash's candidates at the end of each line."""
    fed = []
    for line in lines:
        # Split a line like readline: also at : and =, which are words of their own.
        words = [part for part in re.split(r"\s+|([:=])", line) if part]
        if line.endswith((" ", "=", ":")):
            words += [""] if line.endswith(" ") else []
        fed += [line, shlex.join(words)]
    done = subprocess.run(
        [need("bash"), "--norc", "-c", _BASH, "bash", script, "_nvmeof"],
        input="\n".join(fed) + "\n",
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=True,
    )
    assert done.stderr == "", done.stderr
    return _groups(done.stdout)


def fish(script: Path, lines: list[str]) -> list[list[str]]:
    """Return fish's candidates at the end of each line."""
    asked = [f"complete -C{shlex.quote(line)}; echo --end--" for line in lines]
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", "\n".join([f"source {script}", *asked])],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=True,
    )
    assert done.stderr == "", done.stderr
    return [[one.split("\t")[0] for one in group] for group in _groups(done.stdout)]


def zsh(script: Path, lines: list[str], folder: Path) -> list[list[str]]:
    """Return zsh's candidates at the end of each line, in an interactive shell."""
    shutil.copy(script, folder / "_nvmeof")
    hits, start = folder / "hits", folder / "start.zsh"
    hits.write_text("")
    start.write_text(f"hits={shlex.quote(str(hits))}\n{_ZSH}")
    with Terminal([need("zsh"), "-f", "-i"], folder) as terminal:
        terminal.say(f". {shlex.quote(str(start))} {shlex.quote(str(folder))}\r")
        terminal.wait("ready> ")
        for number, line in enumerate(lines, 1):
            terminal.say(f"{line}\t\x18\x05\x15")
            deadline = time.monotonic() + _PATIENCE
            while hits.read_text().count("--end--") < number:
                assert time.monotonic() < deadline, f"zsh did not answer for {line!r}"
                terminal.drain(0.02)
    return _groups(hits.read_text())


def typed(command: list[str], start: str, line: str, folder: Path) -> str:
    """Return a line after TAB in an interactive shell that began with start."""
    with Terminal(command, folder) as terminal:
        terminal.say(f"{start}\r")
        terminal.wait("ready> ")
        terminal.say(f"{line}\t\x01echo '<\x05>'\r")
        return re.split(r"\r?\n<", terminal.wait(">\r\n"))[-1].rsplit(">\r\n", 1)[0]


def _groups(text: str) -> list[list[str]]:
    parts = text.split("--end--\n")[:-1]
    return [[line for line in part.splitlines() if line] for part in parts]


class Terminal:
    """A program on a terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.chdir(folder)
            environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
            os.execve(command[0], command, environment)
        self._seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def say(self, keys: str) -> None:
        """Send keys."""
        os.write(self._fd, keys.encode())

    def drain(self, seconds: float) -> None:
        """Read the output of this time."""
        if select.select([self._fd], [], [], seconds)[0]:
            self._seen += os.read(self._fd, 65536).decode(errors="replace")

    def wait(self, words: str) -> str:
        """Return the output up to these words, including them."""
        deadline = time.monotonic() + _PATIENCE
        while words not in self._seen:
            assert time.monotonic() < deadline, f"no {words!r} in {self._seen!r}"
            self.drain(0.2)
        shown, self._seen = self._seen, ""
        return shown
