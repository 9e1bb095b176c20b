# SPDX-License-Identifier: BSD-3-Clause
"""Prose is plain English: no phrase of a list, and no summary that begins with a clause.

The list has phrases for which there is a usual term. They are searched in whole files, messages
included; summaries are the first words of docstrings and of comments of C.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("nvmeof", "target", "initiator", "config", "systemd", "tests")
TEXTS = {".py", ".pyi", ".pxi", ".pyx", ".c", ".h", ".md", ".toml", ".service"}
GENERATED = ROOT / "nvmeof" / "docs" / "man"
PLAIN = {
    r"(?<!than )any more\b(?! than)": "no longer",
    r"for ever\b(?!y)": "forever",
    r"\banew\b": "again",
    r"\banother one\b": "a different one, a second one",
    r"(?<![Tt]here )\b(?:is|are) none\b": "there is no",
    r"\bhardly\b": "rarely, barely",
    r"\bwhere it would\b": "if it would",
    r"\bcomes? by\b": "arrives with",
    r"\bas it were\b": "",
    r"\bwhoever\b": "the thread that, the host that",
    r"\band the like\b": "and similar ones",
    r"\bcame of it\b": "the result",
    r"\bwould-be\b": "",
}
"""Phrases, and plain ones in their place."""
CLAUSE = re.compile(r"(?:What|Which|Where|Who(ever)?|That which|One that|Those|Of|Nobody)\s")
"""The beginning of a summary that has no subject."""
LIST = Path(__file__).resolve()
"""This file, which has the phrases."""


def files(*suffixes: str) -> list[Path]:
    """Return the project's files with these endings."""
    folders = [ROOT / name for name in FOLDERS]
    found = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return sorted(
        path
        for path in found
        if path.suffix in suffixes and path.is_file() and path != LIST
        if GENERATED not in path.parents
    )


def flowing(text: str) -> str:
    """Return text without line breaks and the marks of comments at the beginnings of lines."""
    return re.sub(r"\s*\n\s*(?:#|\*|//)?\s*", " ", text)


def summaries(path: Path) -> Iterator[str]:
    """Yield the docstrings of a file of Python, or the comments of C that begin a line."""
    text = path.read_text()
    if path.suffix in (".c", ".h"):
        yield from re.findall(r"^[ \t]*/\*[\s*]*(.*?)\*/", text, re.DOTALL | re.MULTILINE)
        return
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


@pytest.fixture(scope="module")
def texts() -> dict[Path, str]:
    """All prose and code, by file."""
    return {path: flowing(path.read_text()) for path in files(*TEXTS)}


@pytest.mark.parametrize("phrase", PLAIN)
def test_usual_terms(texts: dict[Path, str], phrase: str) -> None:
    pattern = re.compile(phrase)
    found = {
        f"{path.relative_to(ROOT)}: ...{text[max(0, hit.start() - 40) : hit.end() + 40]}..."
        for path, text in texts.items()
        for hit in pattern.finditer(text)
    }
    assert not found, (f"rather: {PLAIN[phrase]}", sorted(found))


def test_summaries_begin_with_the_subject() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {said[:60]}"
        for path in files(".py", ".pyi", ".c", ".h")
        for said in summaries(path)
        if CLAUSE.match(said.strip())
    }
    assert not found, sorted(found)
