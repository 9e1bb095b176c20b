# SPDX-License-Identifier: BSD-3-Clause
"""Asymmetric Namespace Access: states and log page (Base 2.0, 8.1 and 5.16.1.13)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from nvmf.spec.status import DecodeError, Status

MAX_GROUP = 128
"""Number of ANA groups of this target and of nvmet."""
ALL_STATES = 0x1F
"""ANACAP: all states may be reported."""
TRANSITION_SECONDS = 10
"""ANATT: the longest time that a group stays in the ANA Change state."""


class AnaState(IntEnum):
    """How a controller accesses the namespaces of a group."""

    OPTIMIZED = 0x1
    NON_OPTIMIZED = 0x2
    INACCESSIBLE = 0x3
    PERSISTENT_LOSS = 0x4
    CHANGE = 0xF

    @property
    def word(self) -> str:
        """The state as users write it, such as non-optimized."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> AnaState:
        """Return the state for such a word; the ValueError for others lists the valid words."""
        for state in cls:
            if word.replace("_", "-").lower() == state.word:
                return state
        words = ", ".join(state.word for state in cls)
        raise ValueError(f"{word!r} is not one of {words}")

    @property
    def status(self) -> Status | None:
        """The status of I/O commands in this state; None if they are executed."""
        return {
            AnaState.INACCESSIBLE: Status.ANA_INACCESSIBLE,
            AnaState.PERSISTENT_LOSS: Status.ANA_PERSISTENT_LOSS,
            AnaState.CHANGE: Status.ANA_TRANSITION,
        }.get(self)


@dataclass(frozen=True, slots=True)
class AnaGroup:
    """ANA Group Descriptor (figure 220)."""

    group: int
    state: int
    change_count: int
    nsids: tuple[int, ...] = ()


_HEAD = struct.Struct("<QH6x")
_GROUP = struct.Struct("<IIQB15x")


def encode_ana_log(change_count: int, groups: Sequence[AnaGroup], *, only_groups: bool) -> bytes:
    """Encode the Asymmetric Namespace Access log page; only_groups (RGO) omits the NSIDs."""
    page = bytearray(_HEAD.pack(change_count, len(groups)))
    for one in groups:
        nsids = () if only_groups else one.nsids
        page += _GROUP.pack(one.group, len(nsids), one.change_count, one.state)
        page += struct.pack(f"<{len(nsids)}I", *nsids)
    return bytes(page)


def decode_ana_log(data: bytes) -> tuple[int, list[AnaGroup]]:
    """Return (change count, groups); raise DecodeError if the page is truncated."""
    said = f"ANA log page of {len(data)} bytes"
    if len(data) < _HEAD.size:
        raise DecodeError(f"{said}: shorter than its header")
    change_count, count = _HEAD.unpack_from(data)
    at = _HEAD.size
    groups = []
    for number in range(count):
        if len(data) - at < _GROUP.size:
            raise DecodeError(f"{said}: it announces {count} groups and has room for {number}")
        group, size, changes, state = _GROUP.unpack_from(data, at)
        at += _GROUP.size
        if size > (len(data) - at) // 4:
            raise DecodeError(f"{said}: group {group} is truncated")
        nsids = struct.unpack_from(f"<{size}I", data, at)
        at += 4 * size
        groups.append(AnaGroup(group, state & 0xF, changes, nsids))
    return change_count, groups


def ana_log_size(groups: int, namespaces: int) -> int:
    """Return the maximum size in bytes of a log page with this many groups and namespaces."""
    return _HEAD.size + groups * _GROUP.size + 4 * namespaces


def by_state(groups: Iterable[AnaGroup]) -> dict[int, int]:
    """Return the state of each NSID."""
    return {nsid: one.state for one in groups for nsid in one.nsids}
