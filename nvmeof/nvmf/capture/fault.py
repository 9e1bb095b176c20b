# SPDX-License-Identifier: BSD-3-Clause
"""Faults in a capture, with their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class At(NamedTuple):
    """When and where something happened."""

    when: int
    """Nanoseconds since the epoch."""
    packet: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong: with the section if it violates a specification, else a remark."""

    when: int
    packet: int
    sentence: str
    section: str = ""
    """The violated section; "" for a remark."""
    loss: bool = False
    """Whether it is about packets that are not in the capture, not about the connection."""
