# SPDX-License-Identifier: BSD-3-Clause
"""Violations and remarks of a capture, with their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class At(NamedTuple):
    """The time and place of an event."""

    when: int
    """Nanoseconds since the epoch."""
    packet: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A violation of a section of a specification, or a remark."""

    when: int
    packet: int
    sentence: str
    section: str = ""
    """The violated section; "" for a remark."""
    loss: bool = False
    """Whether it concerns packets that are not in the capture, not the connection."""
