# SPDX-License-Identifier: BSD-3-Clause
"""Faults on the wire: which frames they concern, and what happens to those.  No sockets here."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, StrictInt, model_validator

from nvmf.config.base import FaultError, Model
from nvmf.config.faults import MAX_DELAY_US, Distribution
from nvmf.config.units import Size

WireKind: TypeAlias = Literal[
    "delay", "drop", "duplicate", "reorder", "corrupt", "cut", "half-open", "stall"
]
Way: TypeAlias = Literal["to-target", "to-host"]

_WORDS: dict[WireKind, str] = {
    "delay": "frames are delayed",
    "drop": "frames are dropped",
    "duplicate": "frames are duplicated",
    "reorder": "frames are swapped with the next one",
    "corrupt": "a bit of frames is inverted",
    "cut": "connections are reset",
    "half-open": "connections are half-open",
    "stall": "frames wait for the end of the fault",
}
_WHOLE: tuple[WireKind, ...] = ("half-open", "stall")
"""Kinds that concern all frames while they are active."""
Duration = Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)]


class WireFault(Model):
    """[[system.wire]]: a fault between the host and the target, which a relay makes.

    A frame is an FPDU of iWARP or a packet of RoCEv2.
    """

    kind: WireKind
    """delay: frames arrive later.  drop, duplicate, reorder, corrupt: of single frames.  cut: the
    connection is reset.  half-open: the target's end of a connection is closed, and the host is
    not told.  stall: frames wait until the fault ends."""
    direction: Literal["both", "to-target", "to-host"] = "both"
    """Direction of the frames."""
    rate: float = Field(1.0, gt=0, le=1)
    """Probability that a frame is affected."""
    count: StrictInt | None = Field(None, ge=1, lt=1 << 63)
    """Number of frames that are affected, in each measurement."""
    seed: StrictInt = Field(0, ge=0, lt=1 << 63)
    """The same seed and the same order of frames give the same faults."""
    delay_us: StrictInt = Field(0, ge=0, le=MAX_DELAY_US)
    """delay: microseconds; the mean, if a distribution other than fixed is set."""
    distribution: Distribution = "fixed"
    """Distribution of the delay.  Frames of a direction keep their order."""
    spread_us: StrictInt = Field(0, ge=0, le=MAX_DELAY_US)
    """uniform: half the width; normal: the standard deviation."""
    bandwidth: Size | None = Field(None, ge=1)
    """delay: bytes per second of each direction of all connections together."""
    begin: Duration | None = None
    """Seconds after the first I/O of each measurement; default: active during the whole run."""
    seconds: Duration | None = Field(None, gt=0)
    """Seconds after which the fault ends; default: the end of the measurement."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.kind != "delay":
            for key in ("delay_us", "spread_us", "bandwidth"):
                if getattr(self, key):
                    raise FaultError(f"a fault of the kind {self.kind} has no delay", key)
        elif not self.delay_us and self.bandwidth is None:
            raise FaultError("a delay needs delay_us or bandwidth", "delay_us")
        if (self.distribution in ("uniform", "normal")) != bool(self.spread_us):
            needs = "needs" if not self.spread_us else "has no"
            raise FaultError(f"the distribution {self.distribution} {needs} spread_us", "spread_us")
        if self.kind in _WHOLE and (self.rate != 1 or self.count is not None):
            key = "rate" if self.rate != 1 else "count"
            raise FaultError(f"{self.kind} concerns connections: it has no {key}", key)
        if self.begin is None and self.seconds is not None:
            raise FaultError("seconds needs begin: otherwise it lasts for the whole run", "seconds")
        if self.begin is None and self.kind in ("cut", *_WHOLE):
            raise FaultError(f"{self.kind} needs begin: no connection would be made", "begin")
        if self.kind == "half-open" and self.direction != "both":
            raise FaultError("half-open concerns both directions", "direction")
        return self

    def summary(self) -> str:
        """Return the fault as text for people."""
        found = [f"on the wire: {_WORDS[self.kind]}"]
        if self.delay_us:
            around = f" +- {self.spread_us} us" if self.spread_us else ""
            kind = "" if self.distribution == "fixed" else f" ({self.distribution})"
            found.append(f"by {self.delay_us} us{around}{kind}")
        if self.bandwidth is not None:
            found.append(f"to {self.bandwidth} bytes/s")
        if self.direction != "both":
            found.append(self.direction.replace("-", " the "))
        if self.rate != 1:
            found.append(f"rate {self.rate:g}")
        return ", ".join(found)


@dataclass
class Fate:
    """The treatment of one frame."""

    copies: list[bytes]
    """The frames to send in its place."""
    delay: float = 0.0
    """Seconds."""
    behind: bool = False
    """Send it after the next frame of its direction."""
    cut: bool = False
    """Reset the connection."""


class ActiveFault:
    """A fault that is active, with its own random numbers and counts."""

    def __init__(self, config: WireFault) -> None:
        self.config = config
        self.hits = 0
        self._random = random.Random(config.seed)
        self._used: dict[Way, float] = {}
        """Until when the admitted frames use the bandwidth."""

    def stalls(self, way: Way) -> bool:
        """Whether the frames of a direction wait for its end."""
        return self.config.kind == "stall" and self._takes(way)

    def _takes(self, way: Way) -> bool:
        return self.config.direction in ("both", way)

    def meet(self, fate: Fate, way: Way, now: float) -> None:
        """Add the consequences for a frame."""
        config = self.config
        if not self._takes(way) or config.kind in _WHOLE:
            return
        if self._random.random() >= config.rate:
            return
        if config.count is not None and self.hits >= config.count:
            return
        self.hits += 1
        match config.kind:
            case "delay":
                fate.delay += self._delay() + self._paced(sum(map(len, fate.copies)), way, now)
            case "drop":
                fate.copies = []
            case "duplicate":
                fate.copies += fate.copies
            case "reorder":
                fate.behind = True
            case "corrupt":
                fate.copies = [self._corrupted(one) for one in fate.copies]
            case "cut":
                fate.cut = True

    def _delay(self) -> float:
        mean, spread = self.config.delay_us / 1e6, self.config.spread_us / 1e6
        match self.config.distribution:
            case "uniform":
                return max(0.0, mean + spread * (2 * self._random.random() - 1))
            case "normal":
                return max(0.0, self._random.normalvariate(mean, spread))
            case "exponential":
                return -mean * math.log1p(-self._random.random())
        return mean

    def _paced(self, size: int, way: Way, now: float) -> float:
        if self.config.bandwidth is None:
            return 0.0
        until = max(self._used.get(way, now), now) + size / self.config.bandwidth
        self._used[way] = until
        return until - now

    def _corrupted(self, frame: bytes) -> bytes:
        """Return a frame with a bit inverted, not in its first four bytes: its length or opcode."""
        if len(frame) <= 4:
            return frame
        made = bytearray(frame)
        made[self._random.randrange(4, len(made))] ^= 1 << self._random.randrange(8)
        return bytes(made)


def fate_of(frame: bytes, faults: list[ActiveFault], way: Way, now: float) -> Fate:
    """Return what happens to a frame."""
    fate = Fate([frame])
    for fault in faults:
        fault.meet(fate, way, now)
    return fate
