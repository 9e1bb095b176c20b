# SPDX-License-Identifier: BSD-3-Clause
"""Manual pages and completion scripts match the parser and the models, and are well formed."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from manual import keys, roff
from manual.commands import children, every_parser, page_name
from manual.tree import PAGES, ROOT, present, wanted
from nvmf.cli.base import Command
from nvmf.cli.connectflags import URL_OPTIONS
from nvmf.config import Config, load
from nvmf.config.limits import LimitsConfig

PARSERS = every_parser()
FILES = sorted(PAGES.glob("*/*"))


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: ./dev test without arguments installs it")
    return found


def plain(path: Path) -> str:
    """Return a page without its formatting requests."""
    text = path.read_text()
    for mark, char in ((r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\(ti", "~"), (r"\&", "")):
        text = text.replace(mark, char)
    return text.replace(r"\e", "\\")


def terms(text: str) -> Iterator[str]:
    """Yield the terms of lists."""
    return (line.removeprefix(".It ") for line in text.splitlines() if line.startswith(".It "))


def test_tree_has_what_is_made_now() -> None:
    """./dev manual updates it."""
    files = wanted()
    assert present() == set(files)
    old = [path.relative_to(ROOT) for path, text in files.items() if path.read_text() != text]
    assert not old, "run ./dev manual, and commit what it writes"


def test_there_is_a_page_for_every_command() -> None:
    names = {f"{page_name(parser)}.1" for parser in PARSERS}
    assert names | {"nvmeof.toml.5"} == {path.name for path in FILES}


@pytest.mark.parametrize("parser", PARSERS, ids=page_name)
def test_arguments_are_in_the_page(parser: Command) -> None:
    text = plain(PAGES / "man1" / f"{page_name(parser)}.1")
    found = [term.split() for term in terms(text)]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        flags = [f"Fl {flag[1:]}".split() for flag in action.option_strings]
        (words,) = (
            term
            for term in found
            if (all(flag[1] in term for flag in flags) if flags else term[:1] != ["Fl"])
            and (flags or term[-1] in (action.metavar, str(list(action.choices or "?")[-1])))
        )
        if action.choices is not None and action.metavar is None:
            assert {str(choice) for choice in action.choices} <= set(words)
        elif action.choices is not None:
            assert all(re.search(rf"Cm {choice}\b", text) for choice in action.choices)
    for name, _, inner in children(parser):
        assert ["Cm", name] in found
        assert f".Xr {page_name(inner)} 1" in text
    assert all(example in text for example in parser.examples)
    if "options of a URL" in (parser.epilog or "") and parser.prog != "nvmeof bench":
        assert all(["Cm", name] in found for name in URL_OPTIONS)


def test_references_lead_somewhere() -> None:
    pages = {path.name for path in FILES}
    for path in FILES:
        for name, section in re.findall(r"^\.Xr (\S+) (\d)", path.read_text(), re.MULTILINE):
            assert f"{name}.{section}" in pages, path.name


# ---- nvmeof.toml(5) ----


def test_keys_are_in_the_page() -> None:
    """The page has each key with its meaning and an example, which is part of a valid
    configuration.
    """
    text = plain(PAGES / "man5" / "nvmeof.toml.5")
    parts = dict(re.findall(r"^\.Ss (.*)\n((?:(?!\.S[sh] ).*\n)*)", text, re.MULTILINE))
    shown = keys.examples()
    assert load(keys.EXAMPLES / "every-key.toml").subsystems
    tables = dict(keys.tables())
    assert {heading.strip("[]") for heading in tables} == {
        name.replace(r"\(lB", "").replace(r"\(rB", "") for name in parts
    }
    for heading, model in tables.items():
        part = parts[heading.replace("[", r"\(lB").replace("]", r"\(rB")]
        for key, _, said in keys.keys(model):
            assert said, f"{heading} {key} has no docstring"
            assert f".It Ic {key}\n" in part
            assert shown[heading][key].replace('"', "") in part.replace('"', "")


def test_every_model_is_a_table() -> None:
    models = [model for _, model in keys.tables() if model is not LimitsConfig]  # it is in two
    assert len(models) == len(set(models))
    assert Config not in models
    assert {name for name, _ in keys.tables()} >= {"[target]", "[[subsystem.namespace]]"}


@pytest.mark.parametrize(
    ("table", "key", "kind", "default"),
    [
        ("[target]", "reactors", "whole number from 1 to 64", "Default: 1."),
        ("[target]", "buffer_size", "size", "Default: 131072 (128 KiB)."),
        ("[target]", "cpus", "list; each whole number from -1 to 4095", "No default."),
        ("[[port]]", "device", 'one of "iwarp", "roce", "system", "auto"', 'Default: "auto".'),
        ("[[subsystem]]", "nqn", "NQN", "Required."),
        ("[[subsystem]]", "hosts", "list; each NQN", "No default."),
        ("[[subsystem.namespace]]", "size", "size", "No default."),
        ("[[subsystem.namespace]]", "nguid", "32 hexadecimal digits", "No default."),
        ("[[subsystem.namespace]]", "eui64", "16 hexadecimal digits", "No default."),
        ("[[subsystem.namespace]]", "read_only", "true or false", "Default: false."),
        ("[[subsystem.host]]", "dhchap_key", "key, DHHC-1:HH:BASE64:", "No default."),
        ("[subsystem.namespace.limits]", "bandwidth", "size, at least 1", "No default."),
    ],
)
def test_types_and_defaults(table: str, key: str, kind: str, default: str) -> None:
    model = dict(keys.tables())[table]
    (field,) = (field for name, field, _ in keys.keys(model) if name == key)
    assert (keys.type_of(field), keys.default_of(field)) == (kind, default)


# ---- roff ----


def test_text_is_no_request() -> None:
    assert roff.escape("a-b \\ `c` µ") == r"a\-b \e \(gac\(ga \[u00B5]"
    assert roff.sentences(".conf is read. Then 'x'.") == [r"\&.conf is read.", "Then 'x'."]
    assert roff.words("No", "|", 'say "x"', "NQN") == r'\&No \&| "say \(dqx\(dq" NQN'
    assert roff.sentences("A queue of I. Then B.") == ["A queue of I. Then B."]


def test_pages_have_no_complaint_of_mandoc() -> None:
    """References to other pages are checked by a different test."""
    done = subprocess.run(
        [need("mandoc"), "-Tlint", *FILES], capture_output=True, text=True, timeout=120
    )
    complaints = [
        line for line in done.stdout.splitlines() if "referenced manual not found" not in line
    ]
    assert not complaints


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pages_have_no_complaint_of_groff(path: Path) -> None:
    done = subprocess.run(
        [need("groff"), "-mandoc", "-ww", "-z", path], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
