# SPDX-License-Identifier: BSD-3-Clause
"""Attributes of objects in the shell: their groups, as in nvmetcli, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from nvmf.cli.base import UsageError
from nvmf.json import JSON

Table: TypeAlias = dict[str, JSON]
"""A table of the configuration."""

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "subsystem": {
        "attr": (
            "allow_any_host",
            "serial",
            "model",
            "max_namespaces",
            "mdts",
            "in_capsule",
            "max_io_queues",
            "queue_size",
            "permanent_write_protect",
        )
    },
    "namespace": {
        "device": (
            "path",
            "uuid",
            "nguid",
            "eui64",
            "store",
            "size",
            "block_size",
            "read_only",
            "direct",
            "hotplug",
            "persistent",
            "power_fail_atomic",
            "python",
        )
    },
    "port": {"addr": ("trtype", "adrfam", "traddr", "trsvcid", "treq", "device", "hotplug")},
    "ana_group": {"ana": ("state",)},
}
"""Groups of attributes by kind of object; the names are nvmetcli's and those of nvmeof.toml(5)."""

_BOOLEANS = {
    "allow_any_host",
    "permanent_write_protect",
    "read_only",
    "direct",
    "hotplug",
    "persistent",
    "power_fail_atomic",
}
_NUMBERS = {"trsvcid", "block_size", "max_namespaces", "max_io_queues", "queue_size"}
_SIZES = {"size", "mdts", "in_capsule"}
_WORDS: dict[str, JSON] = {"1": True, "true": True, "yes": True}
_WORDS |= {"0": False, "false": False, "no": False}
_FIXED = {
    "trtype": ("rdma",),
    "adrfam": ("ipv4", "ipv6"),
    "treq": ("not specified", "not required"),
}
"""Attributes of nvmetcli that a port here has implicitly, and the values that they can have."""


def assigned(kind: str, words: Sequence[str]) -> Table:
    """Return the values of set GROUP NAME=VALUE...; None for an empty one, to remove it."""
    groups = GROUPS.get(kind, {})
    if not words or words[0] not in groups:
        raise UsageError(f"set needs a group: {', '.join(groups) or 'there is none here'}")
    found: Table = {}
    for word in words[1:]:
        name, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word}: expected NAME=VALUE")
        if name not in groups[words[0]]:
            known = ", ".join(groups[words[0]])
            raise UsageError(f"there is no attribute {name} in {words[0]}: it has {known}")
        if name in _FIXED:
            if text.lower() not in _FIXED[name]:
                raise UsageError(f"{name} must be {' or '.join(_FIXED[name])}, not {text}")
        else:
            found[name] = _value(name, text) if text else None
    return found


def _value(name: str, text: str) -> JSON:
    if name in _BOOLEANS:
        if text.lower() not in _WORDS:
            raise UsageError(f"{name} must be 1 or 0, not {text}")
        return _WORDS[text.lower()]
    if name in _NUMBERS:
        if not text.isdecimal():
            raise UsageError(f"{name} must be a number, not {text}")
        return int(text)
    return int(text) if name in _SIZES and text.isdecimal() else text


def put(table: Table, values: Mapping[str, JSON]) -> None:
    """Set values of a table; None removes one."""
    for name, value in values.items():
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value


def shown(kind: str, table: Mapping[str, JSON]) -> dict[str, Table]:
    """Return the attributes of an object that are set, by group."""
    extra: Table = {}
    if kind == "port":
        extra = {"trtype": "rdma", "trsvcid": 4420}
    elif kind == "subsystem":
        extra = {"allow_any_host": False}
    return {
        group: {name: known[name] for name in names if name in (known := {**extra, **table})}
        for group, names in GROUPS.get(kind, {}).items()
    }


def text_of(value: JSON) -> str:
    """Return a value as it can be set."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value)
