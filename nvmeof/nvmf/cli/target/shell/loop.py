# SPDX-License-Identifier: BSD-3-Clause
"""Reads lines, runs their commands and completes words, with cmd and readline."""

from __future__ import annotations

import argparse
import cmd
import shlex
import sys
from collections.abc import Iterable, Sequence

from nvmf.cli.base import CliError, UsageError, complain, printable
from nvmf.cli.output import print_json
from nvmf.cli.target import file_commands
from nvmf.cli.target.ls import Node, lines
from nvmf.cli.target.shell.nodes import Path, Tree, commands
from nvmf.cli.target.shell.session import Session
from nvmf.cli.target.shell.words import text_of
from nvmf.json import JSON

_HELP = {
    "ls": "ls [PATH] [DEPTH]: show the tree below a place",
    "cd": "cd [PATH]: go to a place; without PATH, to the root",
    "pwd": "pwd: show the place where you are",
    "create": "create [NAME]: create a child of this place",
    "delete": "delete NAME: delete a child of this place",
    "set": "set GROUP NAME=VALUE ...: set attributes; an empty value removes one",
    "get": "get [GROUP [NAME ...]]: show attributes",
    "enable": "enable: serve this port or namespace",
    "disable": "disable: stop serving this port or namespace, which keeps its attributes",
    "grpid": "grpid NUMBER: move this namespace to an ANA group",
    "status": "status: show this place",
    "refresh": "refresh: read the target's configuration; every command does so",
    "saveconfig": "saveconfig [FILE]: write the configuration; FILE.json in nvmetcli's format",
    "restoreconfig": "restoreconfig [FILE]: replace the configuration by that in a file",
    "clearconfig": "clearconfig: remove all ports, subsystems and bdevs",
    "help": "help [COMMAND]: show the commands of this place",
    "exit": "exit: end the shell",
}
_EVERYWHERE = (
    *("ls", "cd", "pwd", "status", "refresh", "saveconfig", "restoreconfig", "clearconfig"),
    *("help", "exit"),
)
_ALIASES = {"quit": "exit", "?": "help"}
_MOST = {"cd": 1, "pwd": 0, "create": 1, "delete": 1, "enable": 0, "disable": 0, "grpid": 1}
_MOST |= {"status": 0, "refresh": 0, "saveconfig": 1, "restoreconfig": 1, "clearconfig": 0}
_MOST |= {"help": 1, "exit": 0, "ls": 2}
"""Maximum numbers of arguments."""
_LOST = "the target does not keep it"


class Shell(cmd.Cmd):
    """A shell, or the execution of its commands."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self._args = args
        self._json = args.output_format == "json"
        self.session = Session(args)
        self.session.read()
        self.tree = Tree(self.session)
        self.here: Path = ()
        self._ended = False
        self._found: list[str] = []

    # ---- sources of lines ----

    def talk(self) -> None:
        """Read lines from the terminal until exit or Ctrl-D; Ctrl-C discards a line."""
        print("Tab completes, help lists the commands, exit or Ctrl-D ends the shell.")
        while not self._ended:
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                print()

    def preloop(self) -> None:
        """Complete whole words: NQNs have colons and hyphens."""
        import readline

        readline.set_completer_delims(" \t\n")

    @property
    def prompt(self) -> str:  # type: ignore[override]
        """The place where the shell is."""
        return f"/{'/'.join(self.here)}> "

    def onecmd(self, line: str) -> bool:
        """Run a line of the terminal; report a failure and go on."""
        if line == "EOF":
            print()
            return self._end()
        try:
            self.line(line)
        except (CliError, UsageError) as error:
            complain("error", str(error), 1)
        return self._ended

    def read(self, source: Iterable[str]) -> None:
        """Run lines; raise CliError at the first that fails."""
        for count, line in enumerate(source, 1):
            try:
                self.line(line)
            except (CliError, UsageError) as error:
                raise CliError(f"line {count}, {line.strip()}: {error}") from None
            if self._ended:
                return

    def leave(self) -> None:
        """Warn about ports and namespaces that were not enabled."""
        for number in self.session.ports:
            print(f"warning: port {number} is not enabled: {_LOST}", file=sys.stderr)
        for nqn, nsid in self.session.namespaces:
            said = f"namespace {nsid} of {nqn} is not enabled: {_LOST}"
            print(f"warning: {printable(said)}", file=sys.stderr)

    def _end(self) -> bool:
        self._ended = True
        return True

    # ---- commands ----

    def line(self, line: str) -> None:
        """Run a line: [PATH] COMMAND [WORD...]; # begins a comment."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"the line is incomplete: {error}") from None
        if words:
            self.run(words)

    def run(self, words: Sequence[str]) -> None:
        """Run a command."""
        self.session.read()
        place, rest = self.here, list(words)
        if rest[0] not in _HELP and rest[0] not in _ALIASES:
            if not (rest[0].startswith(("/", ".")) or self._is_place(rest[0])):
                known = ", ".join((*commands(place), *_EVERYWHERE))
                raise UsageError(f"there is no command {rest[0]}: {known}")
            place = self.tree.resolve(self.here, rest.pop(0))
            if not rest:
                self.here = place
                return
        name = _ALIASES.get(rest[0], rest[0])
        if name not in (*_EVERYWHERE, *commands(place)):
            raise UsageError(f"/{'/'.join(place)} has no command {name}: see help")
        if len(rest) - 1 > _MOST.get(name, len(rest)):
            raise UsageError(f"too many words: {_HELP[name]}")
        self._do(name, place, rest[1:])

    def _is_place(self, text: str) -> bool:
        try:
            self.tree.resolve(self.here, text)
        except CliError:
            return False
        return True

    def _do(self, name: str, place: Path, words: list[str]) -> None:
        tree = self.tree
        match name, words:
            case "ls", _:
                self._ls(place, words)
            case "cd", _:
                self.here = tree.resolve(place, words[0]) if words else ()
            case "pwd", _:
                self._say(f"/{'/'.join(place)}")
            case "status", _:
                self._ls(place, ["", "0"])
            case "create", _:
                made = tree.create(place, words[0] if words else None)
                self._say(f"created {made}")
            case "delete", [child]:
                tree.delete(place, child)
                self._say(f"deleted {child}")
            case "set", _:
                tree.set(place, words)
            case "get", _:
                self._get(place, words)
            case "enable", _:
                tree.enable(place)
                self._say("enabled")
            case "disable", _:
                tree.disable(place)
                self._say("disabled")
            case "grpid", [group]:
                tree.regroup(place, group)
            case "saveconfig", _:
                self._file(file_commands.save, words[0] if words else None)
            case "restoreconfig", _:
                self._file(file_commands.restore, words[0] if words else None)
            case "clearconfig", _:
                self._file(file_commands.clear, None)
            case "help", _:
                self._help(place, words)
            case "exit", _:
                self._end()
            case "refresh", _:
                pass
            case _:
                raise UsageError(_HELP[name])

    def _say(self, sentence: str) -> None:
        if self._json:
            print_json({"message": sentence})
        else:
            print(printable(sentence))

    def _file(self, command: file_commands.Run, name: str | None) -> None:
        values = {**vars(self._args), "file": name, "output": None, "force": False}
        command(argparse.Namespace(**values))
        self.session.read()

    def _help(self, place: Path, words: list[str]) -> None:
        if words and words[0] not in _HELP:
            raise UsageError(f"there is no command {words[0]}")
        for name in words or (*commands(place), *_EVERYWHERE):
            print(_HELP[name])

    def _get(self, place: Path, words: list[str]) -> None:
        groups = self.tree.attributes(place)
        if words and words[0] not in groups:
            raise UsageError(f"there is no group {words[0]}: {', '.join(groups)}")
        chosen = {
            group: {k: v for k, v in values.items() if not words[1:] or k in words[1:]}
            for group, values in groups.items()
            if not words or group == words[0]
        }
        if self._json:
            print_json(chosen)
            return
        for group, values in chosen.items():
            for name, value in values.items():
                print(printable(f"{group} {name}={text_of(value)}"))

    def _ls(self, place: Path, words: list[str]) -> None:
        depth = words.pop() if words and words[-1].isdecimal() and len(words) > 1 else None
        start = self.tree.resolve(place, words[0]) if words else place
        most = int(depth) if depth is not None else 100
        if self._json:
            print_json(self._nested(start, most))
        else:
            print("\n".join(printable(line) for line in lines([self._node(start, most)])))

    def _node(self, path: Path, depth: int) -> Node:
        below = self.tree.children(path) if depth > 0 else []
        summary = self.tree.summary(path)
        name = path[-1] if path else "/"
        text = f"{name}: {summary}" if summary else name
        return text, [self._node((*path, child), depth - 1) for child in below]

    def _nested(self, path: Path, depth: int) -> JSON:
        below = self.tree.children(path) if depth > 0 else []
        found: dict[str, JSON] = {child: self._nested((*path, child), depth - 1) for child in below}
        found |= self.tree.attributes(path)
        return found

    # ---- completion ----

    def complete(self, text: str, state: int) -> str | None:  # type: ignore[override]
        """Return the candidate with this number for the word at the cursor."""
        if not state:
            import readline

            start = readline.get_begidx()
            try:
                self._found = self.candidates(readline.get_line_buffer()[:start], text)
            except (CliError, UsageError):  # the target may have ended
                self._found = []
        return self._found[state] if state < len(self._found) else None

    def candidates(self, before: str, text: str) -> list[str]:
        """Return the words that may replace text after the words before it."""
        words, place = before.split(), self.here
        if words and words[0] not in _HELP:
            place = self.tree.resolve(self.here, words.pop(0))
            if not words:
                return _starting(text, (*commands(place), *_EVERYWHERE))
        if not words:
            named = _starting(text, (*commands(place), *_EVERYWHERE))
            return [*named, *self._places(place, text)]
        if words[0] in ("cd", "ls"):
            return self._places(place, text) if len(words) == 1 else []
        if words[0] == "help":
            return _starting(text, _HELP)
        return _starting(text, self.tree.choices(place, words[0], words[1:]))

    def _places(self, place: Path, text: str) -> list[str]:
        base, slash, leaf = text.rpartition("/")
        above = self.tree.resolve(place, base + slash)
        found = []
        for child in self.tree.children(above):
            if child.startswith(leaf):
                more = bool(self.tree.children((*above, child)))
                found.append(f"{base}{slash}{child}{'/' if more else ' '}")
        return found


def _starting(text: str, words: Iterable[str]) -> list[str]:
    found = [word for word in words if word.startswith(text)]
    return [word if word.endswith("=") else f"{word} " for word in found]
