# SPDX-License-Identifier: BSD-3-Clause
"""What README.md tells people to type: its code blocks, by chapter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).resolve().parent.parent / "README.md"


class Block(NamedTuple):
    """A fenced block of code."""

    chapter: str
    language: str
    text: str


def blocks(chapter: str, language: str) -> list[str]:
    """The texts of a chapter's blocks in one language, in their order; there is at least one."""
    found = [b.text for b in _all() if b[:2] == (chapter, language)]
    if not found:
        raise LookupError(f"README.md has no block of {language} in its chapter '{chapter}'")
    return found


def commands() -> list[list[str]]:
    """Every command of ours that is named, in a block or a sentence, up to its first argument.

    `nvmeof target ana set` is ["target", "ana", "set"].
    """
    text = FILE.read_text()
    named = re.findall(
        r"^(?:sudo )?nvmeof ([^\n]*)", "\n".join(b.text for b in _all()), re.MULTILINE
    )
    named += re.findall(r"`nvmeof ([^`]*)`", text)
    found = []
    for words in named:
        command = re.match(r"[a-z][a-z-]*(?: [a-z][a-z-]*(?![\w./]))*", words)
        if command:
            found.append(command[0].split())
    return found


def _all() -> list[Block]:
    found: list[Block] = []
    chapter = ""
    lines = iter(FILE.read_text().splitlines())
    for line in lines:
        if line.startswith("## "):
            chapter = line[3:]
        elif line.startswith("```"):
            inside = []
            for code in lines:
                if code == "```":
                    break
                inside.append(code)
            found.append(Block(chapter, line[3:], "\n".join(inside) + "\n"))
    return found
