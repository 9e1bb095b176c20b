# SPDX-License-Identifier: BSD-3-Clause
"""A queue as a leg of the engine's spread, which writes to several controllers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmf.engine import HostMemory, HostSpread
    from nvmf.initiator.client.queue import Queue

_PAIR = 2
"""Entries that remain: fused commands need two at a time."""


def join(
    queue: Queue, spread: HostSpread, leg: int, memory: HostMemory, *, nsid: int, shift: int
) -> bool:
    """Make a queue a leg of a spread until it is closed; then the memory is closed, too.

    Half of the queue's entries are the spread's from now on. False, and nothing has changed, if
    the queue is a leg already, or others need its entries.
    """
    most = min(queue._free - _PAIR, queue._host.room // 2)
    if queue.lost is not None or queue.on_closed is not None or queue._line or most < 1:
        return False
    spread.attach(leg, queue._host, memory, nsid=nsid, shift=shift, most=most)
    queue._free -= most

    def closed() -> None:
        queue._host.end_spread()
        memory.close()
        spread.tell()  # what was under way has failed

    queue.on_closed = closed
    return True
