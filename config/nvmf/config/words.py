# SPDX-License-Identifier: BSD-3-Clause
"""Error messages for invalid values, in terms of the configuration and not of the validator."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from nvmf.config.base import FaultError, Loc
from nvmf.config.hosts import CREDENTIAL
from nvmf.config.mirror import LEG_URL
from nvmf.config.models import CONGESTION, PRINTABLE, Config
from nvmf.config.services import LABEL
from nvmf.config.storage import BDEV, PYTHON

_FIXED = {
    "bool_type": "expected true or false, without quotes",
    "bool_parsing": "expected true or false, without quotes",
    "string_type": "expected text in quotes",
    "path_type": "expected a path in quotes",
    "uuid_type": 'expected a UUID in quotes, such as "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"',
    "uuid_parsing": 'expected a UUID such as "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"',
}
_SECRETS = {"dhchap_key", "dhchap_ctrl_key"}
"""Keys whose values are never shown."""
_PATTERNS = {
    CREDENTIAL: "expected the name of a systemd credential",
    PRINTABLE: "expected printable ASCII characters",
    BDEV: "expected printable ASCII characters without spaces",
    LABEL: "expected letters, digits and hyphens",
    LEG_URL: "expected a URL such as nvme+rdma://192.0.2.7/nqn.2026-01.example:disk",
    PYTHON: 'expected a name, or a class such as "package.module:Class"',
    CONGESTION: 'expected the name of a TCP congestion control, such as "cubic"',
}


def expectation(detail: ErrorDetails, place: Loc = ()) -> str:
    """Return the message for an entry of ValidationError.errors(): expected and given value.

    place: the location of the table that was validated, if not the whole configuration.
    """
    kind, loc, given = str(detail["type"]), (*place, *detail["loc"]), detail.get("input")
    if kind == "extra_forbidden":
        return _unknown(loc)
    if kind == "missing":
        return f"is missing: {_header(loc[:-1])} needs it"
    said = _said(kind, detail, loc)
    if _SECRETS.intersection(loc):
        return said
    short = isinstance(given, str | int | float) and len(str(given)) <= 60
    if not short or repr(given) in said:
        return said
    return f"{said} (it is {_toml(given)})"


def placed(detail: ErrorDetails) -> ErrorDetails:
    """Return an entry of ValidationError.errors(), located at the key that a FaultError names."""
    error = detail.get("ctx", {}).get("error")
    return (
        {**detail, "loc": (*detail["loc"], *error.at)} if isinstance(error, FaultError) else detail
    )


def place_of(model: type[BaseModel]) -> Loc:
    """Return the location of this model's tables in a configuration."""
    return next((path for path, other in _tables(Config, ()) if other is model), ())


def _said(kind: str, detail: ErrorDetails, loc: Loc) -> str:
    limits = detail.get("ctx", {})
    if kind == "value_error":
        return str(limits["error"])
    if kind in _FIXED:
        return _FIXED[kind]
    if kind.startswith("int_"):
        return f"expected a whole number{_range(loc)}, without quotes"
    if kind.startswith(("greater_than", "less_than")):
        return f"expected a number{_range(loc) or _limit(limits)}"
    if kind in ("string_too_long", "string_too_short"):
        return f"expected text{_range(loc)}"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(limits["pattern"], f"expected text like {limits['pattern']}")
    if kind == "literal_error":
        return f"expected {str(limits['expected']).replace(chr(39), chr(34))}"
    if kind == "too_short":
        return "expected a list of at least one"
    if kind == "tuple_type":
        return f"expected {_header((*loc, 0)) if _model(loc) else 'a list in [ ]'}"
    if kind.startswith(("model_", "dict_")):
        return f"expected a table {_header(loc)}"
    return str(detail["msg"])  # a kind that no key has at present


def _unknown(loc: Loc) -> str:
    """Return the message for an unknown key: tables with such a key, or similar and valid keys."""
    key, model = str(loc[-1]), _model(loc[:-1]) or Config
    keys = _keys(model)
    said = "unknown key"
    near = difflib.get_close_matches(key, keys, 1)
    owners = [_header(path) for path, other in _tables(Config, ()) if key in _keys(other)]
    if owners:  # a key of a different table is not a misspelling
        said += f": it is one of {' and '.join(owners)}."
    elif near:
        said += f": did you mean {near[0]}?"
    else:
        said += "."
    table = _header(loc[:-1])
    return f"{said} {table[0].upper()}{table[1:]} takes {', '.join(keys)}"


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _field(loc: Loc) -> FieldInfo | None:
    """Return the field at a location; None for the whole configuration."""
    model: type[BaseModel] | None = Config
    found: FieldInfo | None = None
    for part in loc:
        if isinstance(part, str) and model is not None:
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            found = fields.get(part)
            model = _model_in(found.annotation) if found is not None else None
    return found


def _model(loc: Loc) -> type[BaseModel] | None:
    """Return the model of the table at a location."""
    if not loc:
        return Config
    field = _field(loc)
    return _model_in(field.annotation) if field is not None else None


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that an annotation is or contains (as a tuple of tables does)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for part in get_args(annotation) if (m := _model_in(part))), None)


def _tables(model: type[BaseModel], path: Loc) -> Iterator[tuple[Loc, type[BaseModel]]]:
    """Yield every table that a configuration may have, with its model."""
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None:
            repeated: Loc = () if inner is field.annotation else (0,)
            here = (*path, field.alias or name, *repeated)
            yield here, inner
            yield from _tables(inner, here)


def _header(loc: Loc) -> str:
    """Return the header of a table, such as [target] or [[subsystem.namespace]]."""
    names = ".".join(part for part in loc if isinstance(part, str))
    if not names:
        return "the file"
    return f"[[{names}]]" if isinstance(loc[-1], int) else f"[{names}]"


def _range(loc: Loc) -> str:
    """Return both limits of a field; the validator reports only the violated one."""
    field = _field(loc)
    marks: list[object] = list(field.metadata) if field is not None else []
    if field is not None and isinstance(loc[-1], int):
        marks += _metadata(field.annotation)
    low, high = _mark(marks, "ge"), _mark(marks, "le")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    low, high = _mark(marks, "min_length"), _mark(marks, "max_length")
    if low is not None and high is not None:
        return f" of {low} to {high} characters"
    return ""


def _limit(limits: Mapping[str, object]) -> str:
    """Return the violated limit of a model that is not part of a configuration."""
    word = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
    return next((f" {word[k]} {v}" for k, v in limits.items() if k in word), "")


def _mark(marks: list[object], name: str) -> int | None:
    found = (getattr(mark, name, None) for mark in marks)
    return next((int(value) for value in found if value is not None), None)


def _metadata(annotation: object) -> list[object]:
    """Return the Annotated[] metadata of the items of a list."""
    found: list[object] = []
    for mark in getattr(annotation, "__metadata__", ()):
        found += getattr(mark, "metadata", [mark])
    for part in get_args(annotation):
        found += _metadata(part)
    return found


def _toml(value: object) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
