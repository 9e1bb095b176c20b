# SPDX-License-Identifier: BSD-3-Clause
"""Manual pages of nvmeof(1) and of each command, generated from the parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence

from manual import roff
from nvmf.cli.app import make_parser
from nvmf.cli.base import Command

Group = argparse._ArgumentGroup
_STATUS = (
    ("0", "Success."),
    ("1", "Failure; the reason is on standard error."),
    ("2", "Usage error."),
    ("130", "Ended by SIGINT (Ctrl-C)."),
    ("141", "The reader of standard output has ended, such as head(1)."),
    ("143", "Ended by SIGTERM."),
)


def every_parser() -> list[Command]:
    """Return all commands and groups of commands, nvmeof first."""
    return list(_under(make_parser(every=True)))


def _under(parser: Command) -> Iterator[Command]:
    yield parser
    for _, _, inner in children(parser):
        yield from _under(inner)


def children(parser: argparse.ArgumentParser) -> list[tuple[str, str, Command]]:
    """Return (name, summary, parser) of each command in a group."""
    return [
        (choice.dest, choice.help or "", action.choices[choice.dest])
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    ]


def page_name(parser: argparse.ArgumentParser) -> str:
    """Return the name of the page in git's style: nvmeof-target-serve."""
    return parser.prog.replace(" ", "-")


def summary_of(parser: Command) -> str:
    """Return the first sentence of the description, with a lower-case first letter."""
    text = " ".join((parser.description or "").split("\n\n")[0].split()).rstrip(".")
    first = text.split(" ", 1)[0]
    plain = first[1:] == first[1:].lower()  # NVMe stays as it is
    return text[0].lower() + text[1:] if plain else text


def page(parser: Command, date: str, parsers: list[Command]) -> str:
    """Return the page of a command."""
    inner = children(parser)
    parts = [
        ("SYNOPSIS", _synopsis(parser)),
        ("DESCRIPTION", roff.prose(parser.description or "")),
        ("COMMANDS", roff.items((f"Cm {roff.words(name)}", _about(one)) for name, _, one in inner)),
        ("OPTIONS", _arguments(parser)),
        ("URL OPTIONS", _epilog(parser.epilog or "")),
        ("EXIT STATUS", roff.items((f"Li {code}", [text]) for code, text in _STATUS)),
        ("EXAMPLES", roff.literal(parser.examples)),
        ("SEE ALSO", roff.see(_related(parser, parsers))),
    ]
    kept = [part for part in parts if part[0] != "COMMANDS" or inner]
    return roff.page(page_name(parser), 1, date, summary_of(parser), kept)


def _about(parser: Command) -> list[str]:
    text = summary_of(parser)
    return [*roff.sentences(f"{text[0].upper()}{text[1:]}."), "See", f".Xr {page_name(parser)} 1 ."]


def _synopsis(parser: Command) -> list[str]:
    program, *rest = parser.prog.split(" ")
    lines = [f".Nm {program}"]
    if rest:
        lines.append(f".Cm {roff.words(*rest)}")
    done: set[int] = set()
    for action in _ordered(parser):
        if id(action) in done or isinstance(action, argparse._HelpAction):
            continue
        group = _exclusive(parser, action)
        together = group._group_actions if group else [action]
        done |= {id(one) for one in together}
        required = group.required if group else action.required
        forms = " | ".join(_form(one, one.option_strings[:1]) for one in together)
        if not required:
            lines.append(f".Op {forms}")
        else:
            lines.append(f".Brq {forms}" if len(together) > 1 else f".{forms}")
    if children(parser):
        lines += [".Ar COMMAND", ".Op Ar argument ..."]
    return lines


def _ordered(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return options, then positional arguments and their alternatives, without subcommands."""
    shown = [
        action
        for action in parser._actions
        if action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)
    ]

    def positional(action: argparse.Action) -> bool:
        group = _exclusive(parser, action)
        together = group._group_actions if group else [action]
        return not all(one.option_strings for one in together)

    return sorted(shown, key=positional)


def _exclusive(
    parser: argparse.ArgumentParser, action: argparse.Action
) -> argparse._MutuallyExclusiveGroup | None:
    groups = parser._mutually_exclusive_groups
    return next((group for group in groups if action in group._group_actions), None)


def _form(action: argparse.Action, flags: Sequence[str]) -> str:
    """Return an argument for a macro: its flags, each with its value."""
    value = "" if action.option_strings and action.nargs == 0 else _value(action)
    if not flags:
        return value
    return f"{' , '.join(f'Fl {roff.words(flag[1:])}' for flag in flags)} {value}".rstrip()


def _value(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "Cm " + " | ".join(roff.words(str(choice)) for choice in action.choices)
    return f"Ar {roff.words(str(action.metavar or action.dest.upper()))}"


def _arguments(parser: Command) -> list[str]:
    found: list[str] = []
    for group in parser._action_groups:
        shown = [a for a in group._group_actions if a in _ordered(parser)]
        if not shown:
            continue
        if group not in (parser._positionals, parser._optionals):
            title = str(group.title)
            found.append(f".Ss {roff.escape(title[0].upper() + title[1:])}")
            found += roff.prose(group.description or "")
        found += roff.items(
            (_form(action, action.option_strings), _help(action)) for action in shown
        )
    return found


def _help(action: argparse.Action) -> list[str]:
    """Return the help of an argument, with the text of --help."""
    lines = roff.sentences(str(action.help))
    if action.choices is not None and action.metavar is not None:
        choices = " , ".join(f"Cm {roff.words(str(choice))}" for choice in action.choices)
        lines += [".Pp", "One of", f".{choices} ."]
    return lines


def _epilog(text: str) -> list[str]:
    """Return the options of a URL: from a line that ends with a colon, and one line each."""
    if not text:
        return []
    head, *rows = text.splitlines()
    pairs = [re.fullmatch(r"  (\S+) +(.*)", row) for row in rows]
    entries = [(f"Cm {roff.words(p[1])}", roff.sentences(p[2])) for p in pairs if p]
    return [*roff.sentences(f"{head[0].upper()}{head[1:]}"), *roff.items(entries)]


def _related(parser: Command, parsers: list[Command]) -> list[tuple[str, int]]:
    """Return related pages: the group, its commands, sibling commands, and nvmeof.toml(5)."""
    path = parser.prog.split(" ")
    found = {
        (page_name(one), 1)
        for one in parsers
        if one is not parser
        and (one.prog.split(" ") == path[:-1] or one.prog.split(" ")[:-1] in (path, path[:-1]))
        and (len(path) != 2 or len(one.prog.split(" ")) != 2 or _kin(parser, one))
    }
    dests = {action.dest for action in parser._actions}
    if "config" in dests or path[1:2] in (["config"], ["target"]) or len(path) == 1:
        found.add(("nvmeof.toml", 5))
    return sorted(found)


def _kin(parser: Command, other: Command) -> bool:
    """Return whether two top-level commands are related: they are in the same module."""
    from nvmf.cli.app import COMMANDS

    names = {parser.prog.split(" ")[1], other.prog.split(" ")[1]}
    return any(names <= set(commands) for commands in COMMANDS.values())
