# SPDX-License-Identifier: BSD-3-Clause
"""The controllers that have completions to send, and the request to send them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """Calls schedule once when the first controller is added, and again after take().

    Whatever ends a command adds its controller, so that nobody else has to think of it.
    """

    def __init__(self) -> None:
        self.schedule: Callable[[], object] = lambda: None
        """Has take() called soon."""
        self._waiting: dict[T, None] = {}

    def add(self, controller: T) -> None:
        """A command of the controller has ended that had stayed outstanding."""
        if not self._waiting:
            self.schedule()
        self._waiting[controller] = None

    def take(self) -> list[T]:
        """Return the controllers that were added since the last call, in order."""
        taken, self._waiting = list(self._waiting), {}
        return taken
