# SPDX-License-Identifier: BSD-3-Clause
"""What every table of the configuration is made of."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Unknown keys are refused, and what was validated does not change.

    Whole numbers and booleans are strict: "yes" in quotes may be meant as either answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def endpoint(traddr: str, trsvcid: int) -> str:
    """HOST:PORT, as URLs have it."""
    return f"[{traddr}]:{trsvcid}" if ":" in traddr else f"{traddr}:{trsvcid}"


def unique(values: Iterable[object], what: str) -> None:
    """ValueError where a value is there twice."""
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{what} {value} is there twice")
        seen.add(value)
