# SPDX-License-Identifier: BSD-3-Clause
"""What every table of the configuration is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict

Loc = tuple[int | str, ...]
"""Where a value is: keys, and numbers of tables that are repeated."""


class Model(BaseModel):
    """Unknown keys are refused, and what was validated does not change.

    Whole numbers and booleans are strict: "yes" in quotes may be meant as either answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def endpoint(traddr: str, trsvcid: int) -> str:
    """HOST:PORT, as URLs have it."""
    return f"[{traddr}]:{trsvcid}" if ":" in traddr else f"{traddr}:{trsvcid}"


class FaultError(ValueError):
    """What a check of several keys finds wrong, at the one of them that is to be changed."""

    at: Loc
    """From the table that was checked."""

    def __init__(self, words: str, *at: int | str) -> None:
        super().__init__(words)
        self.at = at


def unique(values: Iterable[tuple[Loc, object]], what: str) -> None:
    """FaultError where a value is there twice, at the second; each comes with its place."""
    seen: set[object] = set()
    for at, value in values:
        if value in seen:
            raise FaultError(f"{what} {value} is there twice", *at)
        seen.add(value)


def listed(key: str, values: Iterable[object]) -> Iterator[tuple[Loc, object]]:
    """Values of a list, with their places."""
    return (((key, number), value) for number, value in enumerate(values))
