# SPDX-License-Identifier: BSD-3-Clause
"""Writes to several replicas with one call of the engine, which counts their answers.

A write of a mirror would otherwise pass through Python once for each replica, and its answer again.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from nvmf.engine import HostSpread
from nvmf.replication.machine import Spread
from nvmf.replication.replica import Replica


@runtime_checkable
class SpreadReplica(Replica, Protocol):
    """A replica that can be written to by a HostSpread of the engine."""

    def join(self, spread: HostSpread, leg: int) -> int:
        """Become a leg until it is closed; the most bytes of one write, or 0 if it cannot now."""

    def joined(self) -> bool:
        """Whether the spread may write to it: it is still what it was."""


MOST_BYTES = 256 << 10
"""Bytes of writes that are counted together: an operation of a HostSpread has room for them."""


def bundles(spreads: list[Spread]) -> list[list[Spread]]:
    """Divide writes into those that can be counted together: of one length, to the same legs."""
    if len(spreads) < 2:
        return [spreads] if spreads else []
    found: list[list[Spread]] = []
    last, length, size = 0, 0, MOST_BYTES
    for spread in spreads:
        each = len(spread.data) // len(spread.offsets)
        size += len(spread.data)
        if size > MOST_BYTES or (each, spread.legs) != (length, last):
            found.append([])
            last, length, size = spread.legs, each, len(spread.data)
        found[-1].append(spread)
    return found


class Flight:
    """Writes to several replicas, whose answers the engine counts together."""

    __slots__ = ("legs", "live", "number", "spreads")

    def __init__(self, spreads: list[Spread]) -> None:
        self.spreads = spreads
        self.legs = spreads[0].members()
        self.live = 0
        """The replicas of which the core was not told yet: a set of bits."""
        self.number = -1
        """The number that the engine has given them."""


class Spreader:
    """The replicas of a mirror that can be legs of a spread."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = [each if isinstance(each, SpreadReplica) else None for each in replicas]
        self._able = 0
        """The replicas that are tried: a set of bits."""
        for leg in range(len(replicas)):
            self.again(leg)
        self._most = [0] * len(replicas)
        self._joined: list[Replica | None] = [None] * len(replicas)
        """The replica whose queue each leg has, or had."""
        self._host: HostSpread | None = None
        self._flushing = False

    def again(self, leg: int) -> None:
        """Try a replica that was opened again."""
        if self._replicas[leg] is not None:
            self._able |= 1 << leg

    def exchange(self, leg: int, replica: Replica) -> None:
        """Use a different replica from its next connection on."""
        self._replicas[leg] = replica if isinstance(replica, SpreadReplica) else None
        self._able &= ~(1 << leg)

    def write(
        self, spreads: list[Spread], then: Callable[[int, int], object], *, more: bool
    ) -> tuple[int, int]:
        """Begin writes on the replicas that can; return these, a set of bits, and their number.

        Args:
            spreads: What to write: a bundle.
            then: See HostSpread.write().
            more: Others are under way: it may wait until the end of this turn of the event loop,
                so that the writes of several tasks travel together.
        """
        first = spreads[0]
        legs = self._ready(first)
        if not legs or self._host is None:
            return 0, -1
        host = self._host
        if len(spreads) > 1:
            places = array("Q", [at for spread in spreads for at in spread.offsets])
            data = b"".join([spread.data for spread in spreads])
            number = host.write_many(legs, places, data, then, more)
        elif len(first.offsets) > 1:
            number = host.write_many(legs, array("Q", first.offsets), first.data, then, more)
        else:
            number = host.write(legs, first.offsets[0], first.data, then, more)
        if number < 0:
            return 0, -1
        if host.news or (more and not self._flushing):
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)
        return legs, number

    def has(self, number: int) -> int:
        """Return the replicas that have a write that is under way."""
        return 0 if self._host is None else self._host.has(number)

    def _flush(self) -> None:
        self._flushing = False
        if self._host is not None:
            self._host.flush()
            self._host.tell()

    def _ready(self, spread: Spread) -> int:
        legs = spread.legs & self._able
        if not legs:
            return 0
        if self._host is None:
            self._host = HostSpread(len(self._replicas))
        length = len(spread.data) // len(spread.offsets)
        attached, stopped = self._host.attached, self._host.stopped
        for leg, replica in enumerate(self._replicas):
            bit = 1 << leg
            if not legs & bit or replica is None:
                continue
            if stopped & bit:  # its queue is being closed
                legs &= ~bit
                continue
            if not attached & bit:
                self._joined[leg] = replica
                self._most[leg] = replica.join(self._host, leg)
                if not self._most[leg]:
                    self._able &= ~bit
            # A replica that was exchanged may still be connected: its queue is not this one's.
            mine = self._joined[leg] is replica and replica.joined()
            if not mine or length > self._most[leg]:
                legs &= ~bit
        return legs
