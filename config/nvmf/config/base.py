# SPDX-License-Identifier: BSD-3-Clause
"""Base classes and helpers for all tables of the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict

from nvmf.errors import Error

Loc = tuple[int | str, ...]
"""Location of a value: keys, and indices of repeated tables."""


class Model(BaseModel):
    """Base of all tables: unknown keys are rejected, and validated values are immutable.

    Integers and booleans are strict: quoted text such as "yes" is ambiguous and rejected.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def endpoint(traddr: str, trsvcid: int) -> str:
    """Return HOST:PORT, in the format of URLs."""
    return f"[{traddr}]:{trsvcid}" if ":" in traddr else f"{traddr}:{trsvcid}"


class FaultError(Error, ValueError):
    """A check across several keys failed; at names the key to change."""

    at: Loc
    """Location relative to the table that was checked."""

    def __init__(self, words: str, *at: int | str) -> None:
        super().__init__(words)
        self.at = at


def unique(values: Iterable[tuple[Loc, object]], what: str) -> None:
    """Raise FaultError at the second occurrence of a value; values come with their locations."""
    seen: set[object] = set()
    for at, value in values:
        if value in seen:
            raise FaultError(f"duplicate {what} {value}", *at)
        seen.add(value)


def listed(key: str, values: Iterable[object]) -> Iterator[tuple[Loc, object]]:
    """Return the values of a list with their locations."""
    return (((key, number), value) for number, value in enumerate(values))
