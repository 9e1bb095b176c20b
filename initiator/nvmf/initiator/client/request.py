# SPDX-License-Identifier: BSD-3-Clause
"""A command on its way: what moves with it, who waits for it, and what came back."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from nvmf.engine import HostBatch, HostMemory
from nvmf.initiator.client.buffers import Slot


class Data(NamedTuple):
    """What moves with a command."""

    memory: HostMemory
    offset: int
    length: int
    """Bytes."""
    to_device: bool
    slot: Slot | None = None
    """The slot of a pool that the memory is, held while the command is in flight."""


class Completion(NamedTuple):
    """What came back."""

    status: int
    """SCT << 8 | SC with DNR; 0 is success."""
    dw0: int
    dw1: int

    @property
    def value(self) -> int:
        """Both dwords: a property."""
        return self.dw1 << 32 | self.dw0


class Request:
    """A command in flight."""

    __slots__ = ("answered", "batch", "deadline", "future", "slot", "turns", "what", "within")

    def __init__(
        self,
        future: asyncio.Future[Completion],
        slot: Slot | None,
        deadline: float,
        within: float | None,
        what: str,
    ) -> None:
        self.future = future
        self.slot = slot
        self.deadline = deadline
        self.within = within
        self.what = what
        self.batch: HostBatch | None = None
        self.answered = 0
        """Commands of the batch that were answered when the deadline was set."""
        self.turns = 1
        """Entries of the queue that it takes."""

    def extend(self, now: float) -> None:
        """Move the deadline of a batch that was answered since it was set: now + within."""
        if self.batch is None or self.within is None or self.batch.answered == self.answered:
            return
        self.answered, self.deadline = self.batch.answered, now + self.within
