# SPDX-License-Identifier: BSD-3-Clause
"""Completion scripts, which shtab makes of the parser; here is what it does not know of us."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import shtab

from manual.commands import children, every_parser
from nvmf.cli.app import make_parser
from nvmf.cli.completion import SHELLS

_FILES = {"FILE", "PATH", "CONFIG"}
"""Metavars of what is a file."""
_NEW = {"nvmeof target subsystem add"}
"""Commands whose NQN is of a subsystem that is not there yet."""

_OWN = Path(__file__).with_name("own")
_HEADER = """\
# SPDX-License-Identifier: BSD-3-Clause
# Completion of nvmeof: written by ./dev manual with shtab; what is changed here is lost.
"""


def script(shell: str) -> str:
    """The script for a shell."""
    parser = make_parser(every=True)
    _mark(parser)
    text = shtab.complete(parser, shell, preamble=_own(f"first.{shell}").strip())
    start = text.index("# AUTOMATICALLY GENERATED")
    end = text.index("\n", text.index("# See also:")) + 1
    text = f"{text[:start].rstrip()}\n{_HEADER}{text[end:]}".lstrip()
    if shell == "zsh":
        text = _own_commands_only(text)
    if shell == "bash":
        text = text[: text.rindex("complete -o")] + _own("last.bash")
    # Other programs' scripts of shtab have functions of the same names.
    text = re.sub(r"\b_(set_parser_defaults|set_new_action)\b", r"_nvmeof_\1", text)
    text = re.sub(r"\b_shtab_(?!nvmeof)", "_nvmeof_shtab_", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _own(name: str) -> str:
    """A part of a script that is ours."""
    return (_OWN / name).read_text().split("\n", 1)[1]


def scripts() -> dict[str, str]:
    """All, by the shell."""
    return {shell: script(shell) for shell in SHELLS}


def _mark(parser: argparse.ArgumentParser) -> None:
    """Say what shells look values up in."""
    for _, _, inner in children(parser):
        _mark(inner)
    about_target = parser.prog.startswith("nvmeof target ") and parser.prog not in _NEW
    by_kernel = parser.prog.split(" ")[-1] in ("disconnect", "list-subsys")
    for action in parser._actions:
        kind: object = None
        if action.metavar in _FILES:
            kind = shtab.FILE
        elif action.dest == "nqn" and about_target:
            kind = _function("_nvmeof_target_nqns")
        elif action.dest == "nqn" and by_kernel:
            kind = _function("_nvmeof_kernel_nqns")
        elif action.dest == "device" and action.metavar == "DEVICE":
            kind = _function("_nvmeof_controllers")
        if kind is not None:
            action.complete = kind  # type: ignore[attr-defined]


def _function(name: str) -> dict[str, str]:
    return {"bash": name, "zsh": name, "fish": f"({name})"}


def _own_commands_only(text: str) -> str:
    """shtab's zsh offers commands of inner groups at the outer group, too."""
    for parser in every_parser():
        names = {name for name, _, _ in children(parser)}
        if not names:
            continue
        function = "_shtab_" + re.sub(r"\W", "_", parser.prog)
        for head, entry in (
            (f"{function}_commands() {{\n", r"^    ([\w-]+):"),
            (f"{function}() {{\n", r"^        ([\w-]+)\) "),
        ):
            start = text.index(f"\n{head}") + 1
            end = text.index("\n}", start)
            kept = [
                line
                for line in text[start:end].split("\n")
                if not (found := re.match(entry, line)) or found[1] in names
            ]
            text = text[:start] + "\n".join(kept) + text[end:]
    return text
