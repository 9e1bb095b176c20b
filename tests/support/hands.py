# SPDX-License-Identifier: BSD-3-Clause
"""A core of replication on replicas in memory, whose effects a test ends."""

from __future__ import annotations

from typing import Generic, TypeVar

from nvmf.replication.machine import Effect, Kind, Machine, Spread

M = TypeVar("M", bound=Machine)


def parts(spread: Spread) -> list[Effect]:
    """Return the effects of a write to several replicas."""
    return [part for leg in spread.members() for part in spread.parts(leg)]


class Disks(Generic[M]):
    """Replicas in memory, and the core that writes to them."""

    def __init__(self, core: M, size: int, legs: int) -> None:
        self.core = core
        self.disks = [bytearray(size) for _ in range(legs)]
        self.hold: set[tuple[int, str]] = set()
        """Effects that do not end: those of a replica at a step of the protocol."""
        self.held: list[Effect] = []
        self.refuses: dict[int, Exception] = {}
        """Replicas that fail."""

    def go_on(self) -> None:
        """Do all that is to be done."""
        while found := self.core.take():
            for each in found:
                effects = [each] if isinstance(each, Effect) else parts(each)
                for effect in effects:
                    if (effect.leg, effect.why) in self.hold:
                        self.held.append(effect)
                    else:
                        self.end(effect)

    def end(self, effect: Effect) -> None:
        """Do one effect."""
        if effect.leg in self.refuses:
            self.core.failed(effect, self.refuses[effect.leg])
            return
        disk, at = self.disks[effect.leg], effect.offset
        if effect.kind is Kind.WRITE:
            disk[at : at + len(effect.data)] = effect.data
        self.core.finished(effect, bytes(disk[at : at + effect.length]))

    def release(self, leg: int, why: str = "data") -> None:
        """End what was held."""
        self.hold.remove((leg, why))
        ready = [effect for effect in self.held if (effect.leg, effect.why) == (leg, why)]
        self.held = [effect for effect in self.held if effect not in ready]
        for effect in ready:
            self.end(effect)
        self.go_on()
