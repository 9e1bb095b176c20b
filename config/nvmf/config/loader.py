# SPDX-License-Identifier: BSD-3-Clause
"""Reads a TOML configuration; errors give the file, line, key and expected value."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nvmf.config.base import Loc
from nvmf.config.models import Config
from nvmf.config.words import expectation, placed
from nvmf.errors import Error
from nvmf.paths import refuse_device


class ConfigError(Error):
    """A configuration is invalid: one line for each error, in the order of the file."""

    source: str
    """The file."""
    problems: tuple[str, ...]
    """FILE:LINE: KEY: message."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.source = source
        self.problems = tuple(problems)


def load(path: str | Path) -> Config:
    """Load the configuration in a file; paths in it are relative to its folder.

    Raise ConfigError if it cannot be read, is not TOML, or is not a valid configuration.
    """
    path = Path(path)
    return loads(read_text(path), str(path), base=path.parent)


def read_text(path: Path) -> str:
    """Return the text of a file; raise ConfigError if it cannot be read or is not UTF-8."""
    try:
        refuse_device(path)
        return path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(str(path), [f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"{path}: is not UTF-8 text: {error}"]) from error


def loads(text: str, source: str = "configuration", *, base: Path | None = None) -> Config:
    """Load the configuration in a TOML text; base is the folder for relative paths."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{source}:{line[1]}" if line else source
        hint = "; text and sizes with a unit must be in quotes" if _bare(text, line) else ""
        raise ConfigError(source, [f"{where}: is not TOML: {error}{hint}"]) from error
    except (ValueError, RecursionError) as error:  # a huge number, deeply nested brackets
        raise ConfigError(source, [f"{source}: cannot be read as TOML: {error}"]) from None
    if base is not None:
        _anchor(data, base)
    return _validated(data, source, lambda: key_lines(text))


def from_dict(
    data: Mapping[str, object],
    source: str = "configuration",
    *,
    name: Callable[[Loc], str] | None = None,
) -> Config:
    """Return the configuration in a dictionary with the keys of a TOML file.

    Args:
        data: The dictionary.
        source: Its name, for errors.
        name: Returns what the user calls the value at a location; errors have this instead of the
            source and the key.

    Raises:
        ConfigError: It is not a configuration.
    """
    return _validated(data, source, dict, name)


def _validated(
    data: object,
    source: str,
    find_lines: Callable[[], dict[Loc, int]],
    name: Callable[[Loc], str] | None = None,
) -> Config:
    try:
        return Config.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        lines = find_lines()
        details = [placed(detail) for detail in error.errors(include_url=False)]
        # If all items of a list are invalid, it is also reported as too short.
        inside = {detail["loc"][:-1] for detail in details}
        details = [one for one in details if one["type"] != "too_short" or one["loc"] not in inside]
        found = sorted(
            (
                line_of(detail["loc"], lines) or 0,
                f"{name(detail['loc'])}: {expectation(detail)}"
                if name
                else _sentence(source, detail, lines),
            )
            for detail in details
        )
        raise ConfigError(source, [sentence for _, sentence in found]) from None


def json_schema() -> dict[str, object]:
    """Return the JSON schema of a configuration, for editors."""
    return Config.model_json_schema(by_alias=True)


_KEY_FILES = ("dhchap_key_file", "dhchap_ctrl_key_file")
_PATHS = {"namespace": ("path",), "host": _KEY_FILES, "leg": ("path", *_KEY_FILES)}
"""Keys with paths, in the tables of a subsystem and of a namespace."""


def _anchor(data: dict[str, object], base: Path) -> None:
    """Make relative paths relative to base."""
    target = data.get("target")
    if isinstance(target, dict) and isinstance(target.get("state_dir"), str):
        target["state_dir"] = str(base / target["state_dir"])
    rpc = data.get("rpc")
    if isinstance(rpc, dict) and isinstance(rpc.get("socket"), str):
        rpc["socket"] = str(base / rpc["socket"])
    bdevs = data.get("bdev")
    for bdev in bdevs if isinstance(bdevs, list) else []:
        if isinstance(bdev, dict) and isinstance(bdev.get("path"), str):
            bdev["path"] = str(base / bdev["path"])
    subsystems = data.get("subsystem")
    for subsystem in subsystems if isinstance(subsystems, list) else []:
        _anchor_tables(subsystem, base)


def _anchor_tables(owner: object, base: Path) -> None:
    for table, keys in _PATHS.items():
        tables = owner.get(table) if isinstance(owner, dict) else None
        for one in tables if isinstance(tables, list) else []:
            for key in keys if isinstance(one, dict) else ():
                if isinstance(one.get(key), str):
                    one[key] = str(base / one[key])
            _anchor_tables(one, base)


def _sentence(source: str, detail: ErrorDetails, lines: dict[Loc, int]) -> str:
    """Return FILE:LINE: KEY: the expected value (and the given value, if short)."""
    loc: Loc = detail["loc"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)[1:]
    line = line_of(loc, lines)
    where = f"{source}:{line}" if line else source
    said = expectation(detail)
    return f"{where}: {key}: {said}" if key else f"{where}: {said}"


def line_of(loc: Loc, lines: dict[Loc, int]) -> int | None:
    """Return the line of a key, or of the table that should contain it."""
    for end in range(len(loc), 0, -1):
        line = lines.get(loc[:end])
        if line is not None:
            return line
    return None


def _bare(text: str, line: re.Match[str] | None) -> bool:
    """Return whether the line sets a key to an unquoted value such as 1GiB or a word."""
    if line is None:
        return False
    return bool(re.match(r"[^=#]*=\s*(\d+[A-Za-z]|[A-Za-z/])", text.splitlines()[int(line[1]) - 1]))


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")


def key_lines(text: str) -> dict[Loc, int]:
    """Return the line of each table and key (keys in inline tables are not found)."""
    lines: dict[Loc, int] = {}
    counts: dict[Loc, int] = {}
    here: Loc = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            names = [name.strip(" \"'") for name in header[2].split(".")]
            here = ()
            for name in names[:-1]:
                here += (name,)
                if here in counts:
                    here += (counts[here],)
            here += (names[-1],)
            if header[1] == "[[":
                counts[here] = counts.get(here, -1) + 1
                here += (counts[here],)
            lines.setdefault(here, number)
        elif key := _KEY.match(line):
            lines.setdefault((*here, key[1]), number)
    return lines
