# SPDX-License-Identifier: BSD-3-Clause
"""Results of the RPC methods for mirrors."""

from typing import Literal, TypedDict

LegWord = Literal["in-sync", "resynchronising", "lost", "refused"]

MirrorWord = Literal["closed", "clean", "degraded", "blocked", "deposed"]


class MirrorLeg(TypedDict):
    """A leg of a mirror: a copy of its data."""

    name: str
    """The path, the URL with #NSID, or ram."""
    state: LegWord
    """lost: it is tried again; refused: its content, size or identity is not that of the leg."""
    percent: float
    """Share of the data in which it is in sync."""
    lagging_bytes: int
    """Data in which it is not in sync."""
    reason: str | None
    """Why it is lost or refused."""


class MirrorStatus(TypedDict):
    """A mirror."""

    state: MirrorWord
    """clean: all legs are in sync; degraded: a quorum is there; blocked: commands wait for a
    quorum; deposed: a different writer has taken over, and all commands fail; closed: it is being
    opened."""
    quorum: int
    """Legs that have a write before it is acknowledged."""
    epoch: int
    """Number of the writer; each start of a target has a higher one."""
    legs: list[MirrorLeg]
    losses: int
    """Times that a leg was lost or refused, since the target started."""
    resyncs: int
    """Times that a leg was in sync again."""


MirrorEventType = Literal[
    "mirror_clean",
    "mirror_degraded",
    "mirror_blocked",
    "mirror_deposed",
    "mirror_leg_lost",
    "mirror_leg_refused",
    "mirror_leg_resynchronising",
    "mirror_leg_in_sync",
]


class MirrorChange(TypedDict):
    """A change of the state of a mirror, or of one of its legs."""

    type: MirrorEventType
    leg: str | None
    """Its name; null: the change is that of the mirror."""
    reason: str | None
    """Why a leg is lost or refused."""


class Mirror(MirrorStatus):
    """A namespace that is a mirror."""

    nqn: str
    """The subsystem."""
    nsid: int
