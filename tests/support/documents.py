# SPDX-License-Identifier: BSD-3-Clause
"""The code blocks of README.md and the documents, by chapter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
ADMINISTRATOR = ROOT / "nvmeof" / "docs" / "administrator.md"
PYTHON = ROOT / "nvmeof" / "docs" / "python.md"
FIO = ROOT / "nvmeof" / "docs" / "fio.md"
REPLICATION = ROOT / "nvmeof" / "docs" / "replication.md"
ARCHITECTURE = ROOT / "nvmeof" / "docs" / "architecture.md"
CAPTURE = ROOT / "nvmeof" / "docs" / "capture.md"
REMOTE_MEMORY = ROOT / "nvmeof" / "docs" / "remote-memory.md"
PERSISTENT_MEMORY = ROOT / "nvmeof" / "docs" / "persistent-memory.md"
ALL = (
    *(README, ADMINISTRATOR, PYTHON, FIO, REPLICATION, ARCHITECTURE, CAPTURE, REMOTE_MEMORY),
    PERSISTENT_MEMORY,
)


class Block(NamedTuple):
    """A fenced block of code."""

    chapter: str
    language: str
    text: str


def blocks(chapter: str, language: str, document: Path = README) -> list[str]:
    """Return the blocks of a chapter in one language; LookupError if it has none."""
    found = [b.text for b in _blocks(document) if b[:2] == (chapter, language)]
    if not found:
        raise LookupError(f"{document} has no {language} block in its chapter '{chapter}'")
    return found


def commands() -> list[list[str]]:
    """Return every ``nvmeof`` command in a block or a sentence, up to its first argument.

    `nvmeof target ana set` is ["target", "ana", "set"].
    """
    found = []
    for document in ALL:
        code = "\n".join(b.text for b in _blocks(document))
        named = re.findall(r"^(?:sudo )?nvmeof ([^\n]*)", code, re.MULTILINE)
        named += re.findall(r"`nvmeof ([^`]*)`", document.read_text())
        for words in named:
            command = re.match(r"[a-z][a-z-]*(?: [a-z][a-z-]*(?![\w./]))*", words)
            if command:
                found.append(command[0].split())
    return found


def _blocks(document: Path) -> list[Block]:
    found: list[Block] = []
    chapter = ""
    lines = iter(document.read_text().splitlines())
    for line in lines:
        if re.match("#+ ", line):
            chapter = line.lstrip("# ")
        elif line.startswith("```"):
            inside = []
            for code in lines:
                if code == "```":
                    break
                inside.append(code)
            found.append(Block(chapter, line[3:], "\n".join(inside) + "\n"))
    return found
