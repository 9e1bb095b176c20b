# SPDX-License-Identifier: BSD-3-Clause
"""Reads a description; errors give the file, line, key and expected value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nvmf.config.base import Loc
from nvmf.config.loader import ConfigError, key_lines, line_of, read_text
from nvmf.config.words import expectation, placed
from nvmf.lab.errors import LabError
from nvmf.lab.model import Lab
from nvmf.lab.profiles import DEFAULT_SYSTEMS, PROFILES, Profile
from nvmf.lab.tables import Table, View

_PATHS = {"system": ("config", "path", "pid_file", "overwrite"), "workload": ("job_file", "trace")}
_REQUIRED = {"system": "[[system]]", "workload": "[[workload]]", "method": "[method]"}


def load(path: Path, profile: str | None = None) -> Lab:
    """Load a description; paths in it are relative to its folder.

    profile: its workloads and method are used for those that the file does not have.

    Raises:
        LabError: The file cannot be read, or is not a description; one line for each error. Or
            there is no such profile.
    """
    try:
        text = read_text(path)
    except ConfigError as error:
        raise LabError(str(error)) from None
    try:
        data = tomllib.loads(text)
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise LabError(f"{where}: is not TOML: {error}") from None
    _anchor(data, path.parent)
    return _validated(_completed(data, profile), str(path), key_lines(text))


def from_dict(data: View, source: str = "description") -> Lab:
    """Return the description in a dictionary with the keys of a file; raise LabError."""
    return _validated(data, source, {})


def from_profile(profile: str, systems: Sequence[View] = ()) -> Lab:
    """Return the description of a profile; without systems: a target of ours in memory, and fio
    alone."""
    data: Table = {"lab": {"name": profile}}
    data["system"] = [dict(system) for system in systems or DEFAULT_SYSTEMS]
    return from_dict(_completed(data, profile), f"profile {profile}")


def system_of(text: str) -> Table:
    """Return the system that NAME=WHAT describes: a URL, a path, ram, file:PATH or null.

    Raises:
        LabError: The text has a different form.
    """
    name, equal, what = text.partition("=")
    if not equal or not what:
        raise LabError(f"--system {text!r}: write NAME=URL, NAME=PATH, NAME=ram or NAME=null")
    if what == "ram":
        return {"name": name, "kind": "target", "store": "ram", "size": "256MiB"}
    if what == "null":
        return {"name": name, "kind": "null"}
    if what.startswith("target:"):
        path = str(Path(what.removeprefix("target:")).absolute())
        return {"name": name, "kind": "target", "store": "file", "path": path}
    if "://" in what:
        return {"name": name, "kind": "remote", "url": what}
    return {"name": name, "kind": "file", "path": str(Path(what).absolute())}


def to_json(lab: Lab) -> str:
    """Return a description as JSON, which from_dict() takes."""
    return json.dumps(lab.model_dump(mode="json", by_alias=True, exclude_unset=True), indent=2)


def find_profile(name: str) -> Profile:
    """Return the ready profile with this name; raise LabError."""
    try:
        return PROFILES[name]
    except KeyError:
        raise LabError(f"there is no profile {name!r}: {', '.join(PROFILES)}") from None


def _completed(data: Table, profile: str | None) -> Table:
    if profile is None:
        return data
    ready = find_profile(profile)
    made = dict(data)
    made.setdefault("workload", ready.workloads)
    given = made.get("method", {})
    made["method"] = {**ready.method, **given} if isinstance(given, dict) else given
    return made


def _anchor(data: Table, base: Path) -> None:
    """Make relative paths relative to base."""
    for table, names in _PATHS.items():
        items = data.get(table)
        for one in items if isinstance(items, list) else []:
            for key in names if isinstance(one, dict) else ():
                text = one.get(key)
                if isinstance(text, str) and not text.startswith("nqn."):
                    one[key] = str((base / text).absolute())


def _validated(data: View, source: str, lines: dict[Loc, int]) -> Lab:
    try:
        return Lab.model_validate(data)
    except ValidationError as error:
        found = []
        details = [placed(detail) for detail in error.errors(include_url=False)]
        # If all items of a list are invalid, it is also reported as too short.
        inside = {detail["loc"][:1] for detail in details if len(detail["loc"]) > 1}
        for detail in details:
            if detail["type"] == "too_short" and detail["loc"] in inside:
                continue
            loc = _plain(detail["loc"])
            line = line_of(loc, lines)
            key = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc)[1:]
            where = f"{source}:{line}" if line else source
            said = _sentence(detail, loc)
            found.append((line or 0, f"{where}: {key}: {said}" if key else f"{where}: {said}"))
        raise LabError("\n".join(dict.fromkeys(said for _, said in sorted(found)))) from None


def _plain(loc: Loc) -> Loc:
    """Return the location without the kind of a system, which pydantic adds."""
    if len(loc) > 2 and loc[0] == "system" and loc[2] in ("target", "remote", "file", "null"):
        return (*loc[:2], *loc[3:])
    return loc


def _sentence(detail: ErrorDetails, loc: Loc) -> str:
    kind = str(detail["type"])
    if kind == "extra_forbidden":
        return "is not a key here; nvmeof lab schema lists the keys"
    if kind == "missing":
        table = _REQUIRED.get(str(loc[0]), "the description") if len(loc) > 1 else "a description"
        return f"is missing: {table} needs it"
    if kind.startswith("union_tag"):
        return 'kind must be "target", "remote", "file" or "null"'
    if kind == "string_pattern_mismatch" and loc[-1] == "name":
        return "expected letters, digits, and . _ - (at most 40)"
    located = detail.copy()
    located["loc"] = loc
    return expectation(located)
