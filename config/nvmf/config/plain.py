# SPDX-License-Identifier: BSD-3-Clause
"""Converts a configuration to the shortest equivalent tables, without default values."""

from __future__ import annotations

from pydantic import BaseModel

from nvmf.auth.key import Key
from nvmf.config.models import PortConfig
from nvmf.json import JSON

HIDDEN = "[secret]"

_ALWAYS = {(PortConfig, "traddr")}
"""Written even if default: a port without traddr would seem to listen on all addresses."""


def plain(model: BaseModel, *, secrets: bool = True) -> dict[str, JSON]:
    """Convert a model to tables, lists, text, integers and booleans, as in TOML and JSON.

    Required keys and keys with values other than the default are included.  With secrets, the
    result must go only to the file, never to a log; otherwise HIDDEN replaces each secret.
    """
    found: dict[str, JSON] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        told = field.is_required() or (type(model), name) in _ALWAYS
        if told or value != field.get_default(call_default_factory=True):
            found[field.alias or name] = _plain(value, secrets)
    return {key: value for key, value in found.items() if value is not None}


def _plain(value: object, secrets: bool) -> JSON:
    if isinstance(value, BaseModel):
        return plain(value, secrets=secrets)
    if isinstance(value, dict):
        return {key: _plain(item, secrets) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item, secrets) for item in value]
    if isinstance(value, Key):
        return value.text() if secrets else HIDDEN
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
