# SPDX-License-Identifier: BSD-3-Clause
"""Location of the generated files in the tree, and their expected content."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from manual import commands, keys, rpc, shells

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "nvmeof" / "docs" / "man"
SCRIPTS = ROOT / "nvmeof" / "nvmf" / "cli" / "shells"
RPC = ROOT / "nvmeof" / "nvmf" / "rpc"
RPC_REFERENCE = ROOT / "nvmeof" / "docs" / "rpc.md"
_DATE = re.compile(r"^\.Dd (.*)$", re.MULTILINE)


def wanted() -> dict[Path, str]:
    """Return every expected file; an unchanged page keeps its date."""
    today = f"{date.today():%B} {date.today().day}, {date.today().year}"
    parsers = commands.every_parser()
    made = {
        PAGES / "man1" / f"{commands.page_name(parser)}.1": commands.page(parser, today, parsers)
        for parser in parsers
    }
    made[PAGES / "man5" / "nvmeof.toml.5"] = keys.page(today)
    made = {path: _dated(path, text) for path, text in made.items()}
    made |= {SCRIPTS / f"nvmeof.{s}": text for s, text in shells.scripts().items()}
    made |= {RPC / name: text for name, text in rpc.sources().items()}
    return made | {RPC_REFERENCE: rpc.reference()}


def _dated(path: Path, text: str) -> str:
    before = path.read_text() if path.exists() else ""
    kept = _DATE.search(before)
    same = kept is not None and _DATE.sub("", before) == _DATE.sub("", text)
    return before if same else text


def present() -> set[Path]:
    """Return every existing file."""
    generated = {RPC / name for name in rpc.sources()} | {RPC_REFERENCE}
    every = (*PAGES.glob("*/*"), *SCRIPTS.glob("*"), *generated)
    return {path for path in every if path.is_file()}


def write() -> list[Path]:
    """Write files that differ, and remove obsolete ones; return all of these."""
    files = wanted()
    changed = [p for p, text in files.items() if not p.exists() or p.read_text() != text]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    left = sorted(present() - files.keys())
    for path in left:
        path.unlink()
    return [*changed, *left]
