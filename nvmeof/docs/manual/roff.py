# SPDX-License-Identifier: BSD-3-Clause
"""Manual pages in mdoc(7): escapes text, and puts each sentence on a separate line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 78
_ESCAPES = {"\\": r"\e", "-": r"\-", "^": r"\(ha", "~": r"\(ti", "`": r"\(ga"}
_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
_ABBREVIATION = re.compile(r"(?:\b[A-Z]|\b(?:e\.g|i\.e|etc|such))\.$")
_MACRO = re.compile(r"[A-Z%][a-z0-9][a-z0-9]?")
"""Matches an argument that mdoc may interpret as the name of a macro."""


def escape(text: str, *, code: bool = False) -> str:
    """Escape text for literal output; in code an apostrophe is not a quotation mark."""
    found = "".join(_ESCAPES.get(char, char) for char in text)
    if code:
        found = found.replace("'", r"\(aq")
    return "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in found)


def words(*arguments: str) -> str:
    """Return arguments of a macro, each quoted as one word."""
    return " ".join(_word(argument) for argument in arguments)


def _word(argument: str) -> str:
    found = escape(argument, code=True)
    if _MACRO.fullmatch(argument) or re.fullmatch(r"[][().,:;!?|]", argument):
        return rf"\&{found}"
    if '"' in found or " " in found:
        return '"' + found.replace('"', r"\(dq") + '"'
    return found


def sentences(text: str) -> list[str]:
    """Split a paragraph into lines, one per sentence, as recommended for mdoc."""
    lines: list[str] = []
    for part in _split(" ".join(text.split())):
        lines += textwrap.wrap(part, WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return [_start(escape(line)) for line in lines]


def _split(text: str) -> Iterable[str]:
    held = ""
    for part in _SENTENCES.split(text):
        held = f"{held} {part}" if held else part
        if not _ABBREVIATION.search(part):
            yield held
            held = ""
    if held:
        yield held


def _start(line: str) -> str:
    """Escape the start of a line of text that would be a request."""
    return rf"\&{line}" if line.startswith((".", "'")) else line


def prose(text: str) -> list[str]:
    """Convert paragraphs, separated by empty lines; indented ones are output literally."""
    found: list[str] = []
    for paragraph in re.split(r"\n[ ]*\n", text.strip("\n")):
        if not paragraph.strip():
            continue
        lines = paragraph.splitlines()
        if lines[0].startswith("  "):
            found += literal(lines)  # .Bd begins with an empty line of its own
            continue
        if found:
            found.append(".Pp")
        found += sentences(paragraph)
    return found


def literal(lines: Sequence[str]) -> list[str]:
    """Return lines to be output literally."""
    inside = [
        _start(escape(line, code=True)) for line in textwrap.dedent("\n".join(lines)).split("\n")
    ]
    return [".Bd -literal -offset indent", *inside, ".Ed"]


def items(entries: Iterable[tuple[str, list[str]]]) -> list[str]:
    """Return a list of terms; a term follows .It."""
    found = [".Bl -tag -width Ds"]
    for term, body in entries:
        found += [f".It {term}", *body]
    return [*found, ".El"]


def see(pages: Iterable[tuple[str, int]]) -> list[str]:
    """Return references to other pages, in mdoc's order."""
    ordered = sorted(set(pages), key=lambda page: (page[1], page[0]))
    return [
        f".Xr {name} {section}{' ,' if (name, section) != ordered[-1] else ''}"
        for name, section in ordered
    ]


def page(
    name: str, section: int, date: str, summary: str, parts: Iterable[tuple[str, list[str]]]
) -> str:
    """Return a page with the given parts; parts without lines are left out."""
    lines = [
        r".\" SPDX-License-Identifier: BSD-3-Clause",
        r".\" Written by ./dev manual: changes here will be lost.",
        f".Dd {date}",
        f".Dt {name.upper()} {section}",
        ".Os",
        ".Sh NAME",
        f".Nm {words(name)}",
        f".Nd {escape(summary)}",
    ]
    for heading, body in parts:
        if body:
            lines += [f".Sh {heading}", *body]
    return "\n".join(lines) + "\n"
