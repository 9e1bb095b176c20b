# SPDX-License-Identifier: BSD-3-Clause
"""Checks that a JSON value has the type of a TypedDict, without pydantic.

A command of the command line would spend most of its time on loading pydantic.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from types import UnionType
from typing import (
    ForwardRef,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from nvmf.errors import Error
from nvmf.json import JSON

T = TypeVar("T")


class WrongTypeError(Error, ValueError):
    """A value does not have the expected type: the message has its place."""


def checked(kind: type[T], value: JSON, *, exact: bool = False, name: str = "result") -> T:
    """Return value as this type; raise WrongTypeError if it does not have it.

    exact: refuse fields that the type does not have; otherwise they are accepted, because a newer
    target may have more.  name: of the value, in messages.
    """
    _check(kind, value, name, exact)
    return cast(T, value)


def _check(kind: object, value: JSON, place: str, exact: bool) -> None:
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, ForwardRef):  # JSON, inside itself: any value
        return
    if is_typeddict(kind):
        _check_fields(cast(type[object], kind), value, place, exact)
    elif origin is list:
        if not isinstance(value, list):
            raise _wrong(place, "an array", value)
        for number, one in enumerate(value):
            _check(parts[0], one, f"{place}[{number}]", exact)
    elif origin is dict:
        for name, one in _object(value, place).items():
            _check(parts[1], one, f"{place}.{name}", exact)
    elif origin is Literal:
        if value not in parts:
            raise _wrong(place, " or ".join(repr(part) for part in parts), value)
    elif origin in (Union, UnionType):
        _check_any(parts, value, place, exact)
    else:
        _check_plain(cast(type[object], kind), value, place)


def _check_fields(kind: type[object], value: JSON, place: str, exact: bool) -> None:
    fields, required = _fields(cast(Hashable, kind))
    found = _object(value, place)
    if missing := sorted(required - found.keys()):
        raise WrongTypeError(f"{place} has no {', '.join(missing)}")
    if exact and (extra := sorted(found.keys() - fields.keys())):
        raise WrongTypeError(f"{place} has the unknown {', '.join(extra)}")
    for name, wanted in fields.items():
        if name in found:
            _check(wanted, found[name], f"{place}.{name}", exact)


@cache
def _fields(kind: Hashable) -> tuple[dict[str, object], frozenset[str]]:
    """Return the types of the fields of a TypedDict, and the names that are always present."""
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    return dict(get_type_hints(kind)), required


def _check_any(parts: tuple[object, ...], value: JSON, place: str, exact: bool) -> None:
    failure: WrongTypeError | None = None
    for part in parts:
        try:
            return _check(part, value, place, exact)
        except WrongTypeError as error:
            if failure is None or part is not type(None):
                failure = error
    assert failure is not None
    raise failure


def _check_plain(kind: type[object], value: JSON, place: str) -> None:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return
    if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
        raise _wrong(place, "null" if kind is type(None) else kind.__name__, value)


def _object(value: JSON, place: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise _wrong(place, "an object", value)
    return value


def _wrong(place: str, wanted: str, value: JSON) -> WrongTypeError:
    text = repr(value)
    return WrongTypeError(f"{place} is {text[:40]}, expected {wanted}")
