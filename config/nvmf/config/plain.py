# SPDX-License-Identifier: BSD-3-Clause
"""A configuration as the shortest tables that say the same: what has its default is left out."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from nvmf.auth.key import Key
from nvmf.config.models import PortConfig

HIDDEN = "[secret]"

_ALWAYS = {(PortConfig, "traddr")}
"""What is there though it is the default: without it a port seems to be everywhere."""


def plain(model: BaseModel, *, secrets: bool = True) -> dict[str, Any]:
    """Tables, lists, text, whole numbers and booleans, as TOML and JSON have them.

    A key that must be there is, and so is one whose value is not the default.  With secrets it is
    for the file and for no log; without, HIDDEN stands in their place.
    """
    found: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        told = field.is_required() or (type(model), name) in _ALWAYS
        if told or value != field.get_default(call_default_factory=True):
            found[field.alias or name] = _plain(value, secrets)
    return {key: value for key, value in found.items() if value is not None}


def _plain(value: Any, secrets: bool) -> Any:
    if isinstance(value, BaseModel):
        return plain(value, secrets=secrets)
    if isinstance(value, tuple | list):
        return [_plain(item, secrets) for item in value]
    if isinstance(value, Key):
        return value.text() if secrets else HIDDEN
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
