# SPDX-License-Identifier: BSD-3-Clause
"""config.json of nvme-cli 2: hosts, of which each has subsystems, of which each has ports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from nvmf.initiator.hostfiles.model import (
    PARAMETERS,
    Endpoint,
    HostFileError,
    Identity,
    Kind,
    Value,
    check_identity,
    read_text,
)
from nvmf.spec.nqn import DISCOVERY_NQN, validate_nqn

_At = tuple[str | int, ...]
_EXPECTED: dict[Kind, tuple[type[Value], str]] = {
    "number": (int, "a whole number"),
    "switch": (bool, "true or false"),
    "text": (str, "text in quotes"),
}
_NAMES = {"dhchap-key": "dhchap-secret", "dhchap-ctrl-key": "dhchap-ctrl-secret"}
"""Names of libnvme that differ from those of nvme connect."""


_Object: TypeAlias = dict[str, object]
"""A JSON object."""


class _Json:
    """A JSON document, with the line of each value."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = read_text(path)
        try:
            self.root: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise HostFileError(f"{path}:{error.lineno}: is not JSON: {error.msg}") from None
        except RecursionError:
            raise HostFileError(f"{path}: is too deeply nested") from None
        except ValueError as error:  # a number that is too long
            raise HostFileError(f"{path}: is not JSON: {error}") from None
        self._lines = _lines_of(text)
        self.problems: list[str] = []

    def where(self, at: _At) -> str:
        """Return FILE:LINE of a value."""
        return f"{self.path}:{self._lines.get(at, 1)}"

    def wrong(self, at: _At, sentence: str) -> None:
        """Add a fault to the list."""
        self.problems.append(f"{self.where(at)}: {sentence}")

    def items(self, owner: _Object, key: str, at: _At) -> list[object]:
        """Return an optional list; items that are not objects are faults."""
        found = owner.get(key, [])
        if not isinstance(found, list):
            self.wrong((*at, key), f"{key} is a list")
            return []
        for index, item in enumerate(found):
            if not isinstance(item, dict):
                self.wrong((*at, key, index), f"{key} has objects, not {json.dumps(item)[:40]}")
        return found

    def text(self, owner: _Object, key: str, at: _At) -> str | None:
        """Return an optional string."""
        value = owner.get(key)
        if value is not None and not isinstance(value, str):
            self.wrong((*at, key), f"{key} is text in quotes")
            return None
        return value


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def _lines_of(text: str) -> dict[_At, int]:
    """Return the line of each value in JSON text, by its path of keys and indices."""
    lines: dict[_At, int] = {}
    path: list[str | int | None] = []  # None: an object, before its next key
    line, last = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", last, token.start())
        last, word = token.start(), token[0]
        if word in "]}":
            path.pop()
        elif word == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif path and path[-1] is None:
            path[-1] = json.loads(word)
        elif word != ":":
            lines.setdefault(tuple(part for part in path if part is not None), line)
            if word in "[{":
                path.append(0 if word == "[" else None)
    return lines


def read_config_json(path: Path, system: Identity = (None, None)) -> list[Endpoint]:
    """Return the controllers of libnvme's config.json; HostFileError names every fault."""
    document = _Json(path)
    root = document.root
    # The file is a list of hosts, and its schema an object that has one.
    hosts = root.get("hosts") if isinstance(root, dict) else root
    prefix: _At = ("hosts",) if isinstance(root, dict) else ()
    if not isinstance(hosts, list):
        raise HostFileError(f"{path}:1: must be a list of hosts, [ {{...}} ]")
    endpoints: list[Endpoint] = []
    for index, host in enumerate(hosts):
        at = (*prefix, index)
        if not isinstance(host, dict):
            document.wrong(at, "a host must be an object, {...}")
            continue
        endpoints += _of_host(document, host, at, system)
    if document.problems:
        raise HostFileError(*document.problems)
    return endpoints


def _of_host(
    document: _Json,
    host: _Object,
    at: _At,
    system: Identity,
) -> list[Endpoint]:
    hostnqn, hostid = document.text(host, "hostnqn", at), document.text(host, "hostid", at)
    for key, pair in (("hostnqn", (hostnqn, None)), ("hostid", (None, hostid))):
        try:
            check_identity(*pair)
        except ValueError as error:
            document.wrong((*at, key), str(error))
    if hostnqn is None and hostid is None:
        hostnqn, hostid = system
    shared: dict[str, Value] = {}
    if secret := document.text(host, "dhchap_key", at):
        shared["dhchap-secret"] = secret
    endpoints: list[Endpoint] = []
    for index, subsystem in enumerate(document.items(host, "subsystems", at)):
        here = (*at, "subsystems", index)
        if not isinstance(subsystem, dict):
            continue
        nqn = document.text(subsystem, "nqn", here)
        if not nqn:
            document.wrong(here, "a subsystem needs an nqn")
            continue
        try:
            validate_nqn(nqn)
        except ValueError as error:
            document.wrong((*here, "nqn"), str(error))
        kept = subsystem.get("persistent_discovery_ctrl", host.get("persistent_discovery_ctrl"))
        for number, port in enumerate(document.items(subsystem, "ports", here)):
            if not isinstance(port, dict):
                continue
            endpoint = _of_port(document, port, (*here, "ports", number), nqn, shared)
            if endpoint is not None:
                kept_here = kept is True or endpoint.persistent
                endpoints.append(
                    replace(endpoint, hostnqn=hostnqn, hostid=hostid, persistent=kept_here)
                )
    return endpoints


def _of_port(
    document: _Json, port: _Object, at: _At, nqn: str, shared: dict[str, Value]
) -> Endpoint | None:
    texts = {
        key: document.text(port, key, at)
        for key in ("transport", "traddr", "trsvcid", "host_traddr", "host_iface")
    }
    if not texts["transport"]:
        document.wrong(at, "a port needs a transport")
        return None
    parameters = dict(shared)
    for key, value in port.items():
        dashed = key.replace("_", "-")
        name = _NAMES.get(dashed, dashed)
        if name not in PARAMETERS:
            continue
        kind, expected = _EXPECTED[PARAMETERS[name]]
        if type(value) is kind:  # not isinstance: true is not a number
            parameters[name] = value
        else:
            document.wrong((*at, key), f"{key} is {expected}")
    return Endpoint(
        source=document.where(at),
        transport=texts["transport"],
        traddr=texts["traddr"] or "",
        trsvcid=texts["trsvcid"],
        host_traddr=texts["host_traddr"],
        host_iface=texts["host_iface"],
        subnqn=nqn,
        discovery=nqn == DISCOVERY_NQN or port.get("discovery") is True,
        persistent=port.get("persistent") is True,
        parameters=parameters,
        found_discovery=shared,
        found_subsystem=shared,
    )
