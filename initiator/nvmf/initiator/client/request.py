# SPDX-License-Identifier: BSD-3-Clause
"""A command in flight: its data, the future of its caller, and its completion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from nvmf.engine import HostBatch, HostMemory
from nvmf.initiator.base.errors import QueueLost
from nvmf.initiator.client.buffers import Slot


class Data(NamedTuple):
    """The data of a command."""

    memory: HostMemory
    offset: int
    length: int
    """Bytes."""
    to_device: bool
    slot: Slot | None = None
    """The slot of the pool that has this memory, held while the command is in flight."""


class Completion(NamedTuple):
    """The result of a command."""

    status: int
    """SCT << 8 | SC with DNR; 0 is success."""
    dw0: int
    dw1: int

    @property
    def value(self) -> int:
        """Both dwords as one number: the value of a property."""
        return self.dw1 << 32 | self.dw0


class Call:
    """Takes a completion in place of a future: a function is called with it, at once.

    It runs while the queue takes completions, without a further turn of the event loop. It must
    not raise, and may submit commands.
    """

    __slots__ = ("_done", "_then")

    def __init__(self, then: Callable[[Completion | None], None]) -> None:
        self._then = then
        self._done = False

    def done(self) -> bool:
        """Whether it was called."""
        return self._done

    def set_result(self, completion: Completion) -> None:
        """The command is complete."""
        self._done = True
        self._then(completion)

    def set_exception(self, _: BaseException) -> None:
        """The queue was lost: there is no completion."""
        self._done = True
        self._then(None)


Answer = asyncio.Future[Completion] | Call


class Request:
    """A command in flight."""

    __slots__ = ("deadline", "future", "slot", "turns", "what", "within")

    def __init__(
        self,
        future: Answer,
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
        self.turns = 1
        """Entries of the queue that it uses."""

    def extend(self, now: float) -> None:
        """Move the deadline, if a command was answered since it was set."""


class BatchRequest(Request):
    """A batch in progress."""

    __slots__ = ("answered", "batch")

    def __init__(
        self,
        future: asyncio.Future[Completion],
        deadline: float,
        within: float | None,
        what: str,
        batch: HostBatch,
        turns: int,
    ) -> None:
        super().__init__(future, None, deadline, within, what)
        self.batch = batch
        self.answered = batch.answered
        """Commands of the batch that were answered when the deadline was set."""
        self.turns = turns

    def extend(self, now: float) -> None:
        """Move the deadline to now + within, if a command was answered since it was set."""
        if self.within is not None and self.batch.answered != self.answered:
            self.answered, self.deadline = self.batch.answered, now + self.within


def refuse(future: Answer | asyncio.Future[None], reason: str, *, sent: bool = False) -> None:
    """End what waits on a queue that is lost."""
    if not future.done():
        error = QueueLost(reason)
        error.sent = sent
        future.set_exception(error)
