# SPDX-License-Identifier: BSD-3-Clause
"""Asymmetric Namespace Access: states and log page (Base 2.0, 8.1 and 5.16.1.13)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from nvmf.spec.status import DecodeError, Status

MAX_GROUP = 128
"""Groups that this target and nvmet have."""
ALL_STATES = 0x1F
"""ANACAP: every state may be reported."""
TRANSITION_SECONDS = 10
"""ANATT: how long the state Change lasts at most."""


class AnaState(IntEnum):
    """What a controller does for the namespaces of a group."""

    OPTIMIZED = 0x1
    NON_OPTIMIZED = 0x2
    INACCESSIBLE = 0x3
    PERSISTENT_LOSS = 0x4
    CHANGE = 0xF

    @property
    def word(self) -> str:
        """As people write it: non-optimized."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> AnaState:
        """From such a word; ValueError names the words that there are."""
        for state in cls:
            if word.replace("_", "-").lower() == state.word:
                return state
        words = ", ".join(state.word for state in cls)
        raise ValueError(f"{word!r} is none of {words}")

    @property
    def status(self) -> Status | None:
        """What I/O commands end with; None where they run."""
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
    """Asymmetric Namespace Access log page; only_groups (RGO) leaves the NSIDs out."""
    page = bytearray(_HEAD.pack(change_count, len(groups)))
    for one in groups:
        nsids = () if only_groups else one.nsids
        page += _GROUP.pack(one.group, len(nsids), one.change_count, one.state)
        page += struct.pack(f"<{len(nsids)}I", *nsids)
    return bytes(page)


def decode_ana_log(data: bytes) -> tuple[int, list[AnaGroup]]:
    """(change count, groups); DecodeError where the page ends within a group."""
    try:
        change_count, count = _HEAD.unpack_from(data)
        at = _HEAD.size
        groups = []
        for _ in range(count):
            group, number, changes, state = _GROUP.unpack_from(data, at)
            at += _GROUP.size
            if number > (len(data) - at) // 4:
                raise DecodeError(f"ANA log page of {len(data)} bytes: group {group} is cut off")
            nsids = struct.unpack_from(f"<{number}I", data, at)
            at += 4 * number
            groups.append(AnaGroup(group, state & 0xF, changes, nsids))
    except struct.error as error:
        raise DecodeError(f"ANA log page of {len(data)} bytes: {error}") from None
    return change_count, groups


def ana_log_size(groups: int, namespaces: int) -> int:
    """Bytes of the largest log page of so many groups and namespaces."""
    return _HEAD.size + groups * _GROUP.size + 4 * namespaces


def by_state(groups: Iterable[AnaGroup]) -> dict[int, int]:
    """NSID to state."""
    return {nsid: one.state for one in groups for nsid in one.nsids}
