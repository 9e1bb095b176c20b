# SPDX-License-Identifier: BSD-3-Clause
"""Writes a changed configuration back to its file, keeping comments and order."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import BaseModel
from tomlkit.items import AoT, Table

from nvmf.config.loader import ConfigError, loads
from nvmf.config.mirror import LegConfig
from nvmf.config.models import (
    AnaGroupConfig,
    BdevConfig,
    Config,
    NamespaceConfig,
    PortConfig,
    ReferralConfig,
    SubsystemConfig,
)
from nvmf.config.plain import plain
from nvmf.config.units import format_size
from nvmf.json import JSON

_HEADER = re.compile(r"\s*\[\[?[^\[\]=]+\]\]?\s*(#.*)?$")
_COMMENT = re.compile(r"\s*#")
_MARK = "#@above "
"""Prefix of a comment that is moved temporarily."""
_EMPTY_LINES = re.compile(r"\n{2,}")
_SIZES = {"size", "mdts", "in_capsule", "buffer_size", "ram", "resync_rate"}
_SIZES |= {"bandwidth", "read_bandwidth", "write_bandwidth"}


def merge(text: str, wanted: Config, *, base: Path | None = None) -> str:
    """Return the text with the fewest changes that give the wanted configuration.

    Unchanged settings and their comments stay as they are.  base: the folder for relative paths in
    the text.  Raise ConfigError if the text is not a valid configuration, or its layout does not
    permit changes in place.
    """
    old = loads(text, base=base)
    labels = _MARK not in text
    document = tomlkit.parse(_inside(text) if labels else text)
    _update(document, old, wanted)
    merged = tomlkit.dumps(document)
    merged = _tidied(_above(merged) if labels else merged, text)
    if _unordered(loads(merged, base=base)) != _unordered(wanted):
        raise ConfigError(
            "configuration", ["the layout of the file does not permit changes in place"]
        )
    return merged


def _inside(text: str) -> str:
    """Move comments directly above a table's header below it, so that they move with the table.

    The parser assigns them to the preceding table.  Comments above the first header belong to the
    file and stay.
    """
    lines: list[str] = []
    first = True
    for line in text.splitlines(keepends=True):
        if not _HEADER.match(line):
            lines.append(line)
            continue
        start = len(lines)
        while not first and start and _COMMENT.match(lines[start - 1]):
            start -= 1
        above, lines[start:] = lines[start:], [line]
        lines += [_MARK + comment for comment in above]
        first = False
    return "".join(lines)


def _above(text: str) -> str:
    """Move those comments back above the header."""
    lines: list[str] = []
    at = 0
    for line in text.splitlines(keepends=True):
        if line.startswith(_MARK):
            lines.insert(at, line.removeprefix(_MARK))
            at += 1
            continue
        at = len(lines)
        lines.append(line)
    return "".join(lines)


def _tidied(merged: str, text: str) -> str:
    """Remove the empty lines left by removed tables; text: before the change.

    Consecutive empty lines, and those at the start and end, do not exceed those in text.
    """
    start, end = (len(text) - len(bare) for bare in (text.lstrip("\n"), text.rstrip("\n")))
    most = max((len(run) for run in _EMPTY_LINES.findall(text)), default=0)
    body = _EMPTY_LINES.sub(lambda run: run[0][: max(most, 2)], merged.strip("\n"))
    first = len(merged) - len(merged.lstrip("\n"))
    last = len(merged) - len(merged.rstrip("\n"))
    return "\n" * min(first, start) + body + "\n" * min(last, max(end, 1))


def _unordered(config: Config) -> Config:
    """Sort namespaces and ANA groups by number, to compare configurations regardless of order."""
    subsystems = tuple(
        one.model_copy(update={"namespaces": tuple(sorted(one.numbered(), key=lambda n: n[0]))})
        for one in config.subsystems
    )
    ports = tuple(
        one.model_copy(update={"ana_groups": tuple(sorted(one.ana_groups, key=lambda g: g.id))})
        for one in config.ports
    )
    return config.model_copy(update={"subsystems": subsystems, "ports": ports})


def write(path: Path, text: str) -> None:
    """Replace a file's content atomically, keeping mode and owner; raise OSError on failure."""
    path = path.resolve()
    try:
        _replace(path, text)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # not the temporary file
        raise


def _replace(path: Path, text: str) -> None:
    """Write a temporary file, sync it to disk, and rename it to path."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if path.exists():
                there = path.stat()
                os.fchmod(file.fileno(), there.st_mode & 0o7777)
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), there.st_uid, there.st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(name, path)
    except BaseException:
        os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _update(table: Any, old: BaseModel, new: BaseModel) -> None:
    """Change the keys of a table whose values differ."""
    for name, field in type(new).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        key = field.alias or name
        if isinstance(after, BaseModel):
            if key not in table:
                table[key] = tomlkit.table()
            _update(table[key], before, after)
        elif _models(before) or _models(after):
            _update_list(table, key, before, after)
        elif not field.is_required() and after == field.get_default(call_default_factory=True):
            table.pop(key, None)
        else:
            table[key] = _written(key, plain(new)[key])


def _models(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], BaseModel)


def _update_list(table: Any, key: str, old: Sequence[BaseModel], new: Sequence[BaseModel]) -> None:
    """Update repeated tables: delete the removed, update the remaining, append the new ones."""
    if not new:
        table.pop(key, None)
        if key == "port":  # without the key, there is a default port
            table[key] = []
        return
    there = table.get(key)
    if not isinstance(there, AoT):  # absent, or an inline array
        old = ()
        table.pop(key, None)
        there = table[key] = tomlkit.aot()
        there = table[key]
    names = _names(new)
    before = _names(old)
    for number in reversed(range(len(old))):
        if before[number] not in names:
            del there[number]
    stay = [number for number in range(len(old)) if before[number] in names]
    for place, number in enumerate(stay):
        _update(there[place], old[number], new[names.index(before[number])])
    for number, name in enumerate(names):
        if name not in before:
            _append(there, _table(new[number]))


def _append(there: AoT, made: Table) -> None:
    """Append a table; an empty line after the previous table moves after this one."""
    if len(there) and there[-1].as_string().endswith("\n\n"):
        made.trivia.indent = ""
        made.add(tomlkit.nl())
    there.append(made)


def _names(items: Sequence[BaseModel]) -> list[Hashable]:
    """Return an identifier for each of the tables."""
    if items and isinstance(items[0], NamespaceConfig):
        spaces = [n for n in items if isinstance(n, NamespaceConfig)]
        given = {n.nsid for n in spaces}
        free = (nsid for nsid in range(1, 0xFFFFFFFF) if nsid not in given)
        return [n.nsid if n.nsid is not None else next(free) for n in spaces]
    return [_name(item) for item in items]


def _name(item: BaseModel) -> Hashable:
    match item:
        case SubsystemConfig():
            return item.nqn
        case BdevConfig():
            return item.name
        case LegConfig():
            return item.name
        case PortConfig():
            return item.traddr, item.trsvcid
        case AnaGroupConfig():
            return item.id
    return repr(item) if isinstance(item, ReferralConfig) else getattr(item, "nqn", repr(item))


def _written(key: str, value: JSON) -> JSON:
    """Return a value for the file; sizes with a unit."""
    if isinstance(value, dict) and key != "options":
        return {inner: _written(inner, each) for inner, each in value.items()}
    if key in _SIZES and isinstance(value, int) and value % 1024 == 0:
        return format_size(value).replace(" ", "")
    return value


def _table(model: BaseModel) -> Table:
    """Return a new table for a model."""
    made = tomlkit.table()
    made.trivia.indent = "\n"
    repeated: dict[str, Sequence[BaseModel]] = {}
    for name, field in type(model).model_fields.items():
        key, value = field.alias or name, getattr(model, name)
        said = plain(model)
        if key in said and _models(value):
            repeated[key] = value
        elif key in said:
            made[key] = _written(key, said[key])
    for key, value in repeated.items():
        made[key] = tomlkit.aot()
        for item in value:
            made[key].append(_table(item))
    return made
