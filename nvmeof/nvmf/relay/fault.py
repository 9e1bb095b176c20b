# SPDX-License-Identifier: BSD-3-Clause
"""Active faults on the wire: the frames that they concern, and the effects on these.  Sans-IO."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from nvmf.config.wirefaults import WHOLE, Way, WireRule
from nvmf.relay.owner import Owner

__all__ = ["ActiveFault", "Fate", "Way", "fate_of"]

Takes = Callable[[Owner], bool]
"""A further condition for frames."""


@dataclass
class Fate:
    """The consequences of faults for a frame."""

    copies: list[bytes]
    """The frames to send in its place."""
    delay: float = 0.0
    """The delay, in seconds."""
    behind: bool = False
    """Send it after the next frame of its direction."""
    cut: bool = False
    """Reset the connection."""


class ActiveFault:
    """A fault that is active, with its own random numbers and counts."""

    def __init__(
        self, config: WireRule, takes: Takes | None = None, spent: Callable[[], None] | None = None
    ) -> None:
        self.config = config
        self.matched = 0
        """Frames that met the conditions; connections, if half-open."""
        self.hits = 0
        self._further = takes
        self._spent = spent
        """Called when count frames have been affected, on the thread of the relays."""
        self._random = random.Random(config.seed)
        self._used: dict[Way, float] = {}
        """Until when the admitted frames use the bandwidth."""

    def stalls(self, way: Way, owner: Owner) -> bool:
        """Whether a frame waits for its end."""
        return self.config.effect == "stall" and self.takes(owner, way)

    def takes(self, owner: Owner, way: Way | None = None) -> bool:
        """Whether the fault concerns frames of an owner; way None: in any direction."""
        config = self.config
        return (
            (way is None or config.direction in ("both", way))
            and config.host in (None, owner.host)
            and config.subsystem in (None, owner.subsystem)
            and config.queue in (None, owner.queue)
            and config.nsid in (None, owner.nsid)
            and (self._further is None or self._further(owner))
        )

    def hit(self) -> None:
        """Count a frame or connection that the fault affects."""
        self.matched += 1
        self.hits += 1

    def meet(self, fate: Fate, way: Way, now: float, owner: Owner) -> None:
        """Add the consequences for a frame."""
        config = self.config
        if config.effect in WHOLE or not self.takes(owner, way):
            return
        self.matched += 1
        if self._random.random() >= config.rate:
            return
        if config.count is not None and self.hits >= config.count:
            return
        self.hits += 1
        if self.hits == config.count and self._spent is not None:
            self._spent()
        match config.effect:
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


def fate_of(
    frame: bytes, faults: list[ActiveFault], way: Way, now: float, owner: Owner | None = None
) -> Fate:
    """Return the effects on a frame."""
    fate = Fate([frame])
    for fault in faults:
        fault.meet(fate, way, now, owner or Owner())
    return fate
