# SPDX-License-Identifier: BSD-3-Clause
"""nvme-fabrics.conf(5) of nvme-cli 3: a main file, and a folder FILE.d of drop-ins.

The value of a parameter is the first one found on the `controller =` line, in its section, in the
file's [Host], and in the defaults for its kind of controller, of the file and then of the main
file. `key =` without a value restores the initiator's default.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nvmf.initiator.hostfiles.model import (
    PARAMETERS,
    SECURITY,
    TUNABLES,
    Endpoint,
    HostFileError,
    Identity,
    Parameters,
    Value,
    check_identity,
    parse_value,
    read_text,
)
from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

log = logging.getLogger(__name__)

_SECTIONS = {
    "Host": "host",
    "Discovery Controller Defaults": "discovery",
    "I/O Controller Defaults": "subsystem",
}
_ENDPOINTS = {"Discovery Controller": True, "Subsystem": False}
_IDENTITY = ("hostnqn", "hostid", "hostsymname")
_ADDRESS = ("transport", "traddr", "trsvcid", "host-traddr", "host-iface")
_SPELLINGS = {"kxchap-secret": "dhchap-secret", "kxchap-ctrl-secret": "dhchap-ctrl-secret"}
"""Names in later versions of nvme-cli."""

_Settings = dict[str, Value | None]
"""None: the initiator's default."""


@dataclass(slots=True)
class _Path:
    """A `controller =` line."""

    line: int
    address: dict[str, str]
    settings: _Settings


@dataclass(slots=True)
class _Section:
    """[Discovery Controller] or [Subsystem]."""

    line: int
    discovery: bool
    nqn: str | None = None
    settings: _Settings = field(default_factory=dict)
    paths: list[_Path] = field(default_factory=list)


@dataclass(slots=True)
class _File:
    """The content of one file."""

    path: Path
    scopes: dict[str, _Settings] = field(default_factory=dict)
    """The sections, by the names in _SECTIONS."""
    identity: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Value and line."""
    host_line: int = 0
    """Line of [Host]; 0 if there is no such section."""
    sections: list[_Section] = field(default_factory=list)


class _Reader:
    """Reads one file, and collects its faults."""

    def __init__(self, path: Path) -> None:
        self.file = _File(path)
        self.problems: list[str] = []
        self._line = 0
        self._scope: _Settings | None = None
        self._section: _Section | None = None
        self._where: Literal["nowhere", "ignored", "host", "defaults", "endpoint"] = "nowhere"

    def read(self, text: str) -> None:
        """Read all lines."""
        for self._line, line in enumerate(text.split("\n"), 1):
            stripped = line.strip()
            if not stripped or stripped.startswith("#"):
                continue
            try:
                self._take(stripped)
            except ValueError as error:
                self.problems.append(f"{self.file.path}:{self._line}: {error}")
        for section in self.file.sections:
            if not section.discovery and section.nqn is None:
                self.problems.append(
                    f"{self.file.path}:{section.line}: [Subsystem] needs nqn = NQN"
                )

    def _warn(self, sentence: str) -> None:
        log.warning("%s:%d: %s", self.file.path, self._line, sentence)

    def _take(self, line: str) -> None:
        if line.startswith("["):
            name, closed, rest = line[1:].partition("]")
            if not closed or not name.strip() or rest.strip():
                self._where = "ignored"
                raise ValueError(f"{line!r} is not a section: the form is [NAME]")
            self._enter(name.strip())
            return
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{line!r} is neither [SECTION] nor KEY = VALUE")
        if self._where == "nowhere":
            raise ValueError(f"{key.strip()} is before any [SECTION]")
        if self._where != "ignored":
            self._assign(_SPELLINGS.get(key.strip(), key.strip()), value.strip())

    def _enter(self, name: str) -> None:
        self._section = self._scope = None
        if name in _ENDPOINTS:
            self._section = _Section(self._line, _ENDPOINTS[name])
            self.file.sections.append(self._section)
            self._scope, self._where = self._section.settings, "endpoint"
        elif name in _SECTIONS:
            key = _SECTIONS[name]
            if key in self.file.scopes and key == "host":
                self._where = "ignored"
                raise ValueError("a second [Host]: a file describes one host")
            if key in self.file.scopes:
                self._warn(f"[{name}] is there twice")
            self._scope = self.file.scopes.setdefault(key, {})
            self._where = "host" if key == "host" else "defaults"
            if key == "host":
                self.file.host_line = self._line
        else:
            self._warn(f"unknown section [{name}] is ignored")
            self._where = "ignored"

    def _assign(self, key: str, value: str) -> None:
        section = self._section
        if section is not None and key == "controller":
            section.paths.append(self._path(value))
        elif section is not None and key == "nqn":
            section.nqn = validate_nqn(value)
        elif self._where == "host" and key in _IDENTITY:
            if value:
                if key != "hostsymname":
                    check_identity(*((value, None) if key == "hostnqn" else (None, value)))
                self.file.identity[key] = (value, self._line)
        elif key in PARAMETERS and (self._where != "defaults" or key in TUNABLES):
            assert self._scope is not None
            self._scope[key] = parse_value(key, PARAMETERS[key], value) if value else None
        elif key in (*PARAMETERS, *_IDENTITY, "controller", "nqn"):
            raise ValueError(f"{key} does not belong in this section")
        else:
            self._warn(f"unknown key {key!r} is ignored")

    def _path(self, value: str) -> _Path:
        path = _Path(self._line, {}, {})
        for token in value.split(";"):
            key, equals, text = (part.strip() for part in token.partition("="))
            if not key and not equals:
                continue
            if not key or not equals:
                raise ValueError(f"{token.strip()!r} is not KEY=VALUE")
            if key in _ADDRESS:
                if not text or key in path.address:
                    raise ValueError(f"{key} is {'there twice' if text else 'empty'}")
                path.address[key] = text
            elif key in TUNABLES:
                path.settings[key] = parse_value(key, TUNABLES[key], text) if text else None
            elif _SPELLINGS.get(key, key) in SECURITY:
                raise ValueError(f"{key} applies to all paths: it belongs in the section")
            else:
                raise ValueError(f"unknown key {key!r} on a controller line")
        for key in ("transport", "traddr"):
            if key not in path.address:
                raise ValueError(f"a controller line needs {key}=")
        return path


def _read(path: Path) -> _File:
    reader = _Reader(path)
    reader.read(read_text(path))
    if reader.problems:
        raise HostFileError(*reader.problems)
    return reader.file


def _check_hosts(files: list[_File]) -> list[str]:
    """Check that each file describes one host, whose NQN and identifier no other file has."""
    problems: list[str] = []
    seen: dict[tuple[str, str], _File] = {}
    for index, file in enumerate(files):
        if index and file.host_line and "hostnqn" not in file.identity:
            problems.append(f"{file.path}:{file.host_line}: [Host] of a drop-in needs hostnqn =")
        for key in ("hostnqn", "hostid"):
            if key not in file.identity:
                continue
            value, line = file.identity[key]
            other = seen.setdefault((key, value.lower()), file)
            if other is not file:
                problems.append(f"{file.path}:{line}: {key} {value} is that of {other.path} too")
    return problems


def _merged(*layers: Mapping[str, Value | None]) -> Parameters:
    """Merge layers: later ones take precedence, and values that are reset are removed."""
    settings: _Settings = {}
    for layer in layers:
        settings.update(layer)
    return {key: value for key, value in settings.items() if value is not None}


def _expand(top: _File, file: _File, system: Identity) -> list[Endpoint]:
    def layers(kind: str) -> list[_Settings]:
        own = [] if file is top else [file.scopes.get(kind, {})]
        return [top.scopes.get(kind, {}), *own, file.scopes.get("host", {})]

    hostnqn, hostid = (file.identity.get(key, (None, 0))[0] for key in ("hostnqn", "hostid"))
    if file is top or not file.host_line:
        # The machine's identity, which does not apply to drop-ins: they describe other hosts.
        hostnqn, hostid = hostnqn or system[0], hostid or system[1]
    endpoints = []
    for section in file.sections:
        kind = "discovery" if section.discovery else "subsystem"
        for path in section.paths:
            address = path.address
            endpoints.append(
                Endpoint(
                    source=f"{file.path}:{path.line}",
                    transport=address["transport"],
                    traddr=address["traddr"],
                    trsvcid=address.get("trsvcid"),
                    host_traddr=address.get("host-traddr"),
                    host_iface=address.get("host-iface"),
                    subnqn=section.nqn or DISCOVERY_NQN,
                    discovery=section.discovery,
                    hostnqn=hostnqn,
                    hostid=hostid,
                    parameters=_merged(*layers(kind), section.settings, path.settings),
                    found_discovery=_merged(*layers("discovery")) if section.discovery else {},
                    found_subsystem=_merged(*layers("subsystem")) if section.discovery else {},
                )
            )
    return endpoints


def drop_ins(path: Path) -> list[Path]:
    """Return FILE.d/*.conf, sorted by name; raise HostFileError if it cannot be read."""
    folder = path.with_name(path.name + ".d")
    try:
        names = sorted(item for item in folder.iterdir() if item.suffix == ".conf")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise HostFileError(f"{folder}: cannot be read: {error.strerror}") from None
    return [item for item in names if not item.name.startswith(".")]


def read_fabrics_conf(path: Path, system: Identity = (None, None)) -> list[Endpoint]:
    """Return the controllers of a file and its drop-ins.

    system is the machine's host NQN and identifier. If neither the file nor a drop-in exists, there
    are no controllers. HostFileError lists every fault.
    """
    problems: list[str] = []
    files: list[_File] = []
    for item in [path, *drop_ins(path)]:
        try:
            files.append(_read(item) if item != path or path.exists() else _File(path))
        except HostFileError as error:
            problems += error.problems
    problems = problems or _check_hosts(files)
    if problems:
        raise HostFileError(*problems)
    return [endpoint for file in files for endpoint in _expand(files[0], file, system)]
