# SPDX-License-Identifier: BSD-3-Clause
"""The controllers that have completions to send, and the callback that schedules sending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """Calls schedule when the first controller is added, once until the next take().

    Code that completes a command adds its controller here and need not send the completion.
    """

    def __init__(self) -> None:
        self.schedule: Callable[[], object] = lambda: None
        """Arranges that take() is called soon."""
        self._waiting: dict[T, None] = {}

    def add(self, controller: T) -> None:
        """Add a controller: one of its outstanding commands is complete."""
        if not self._waiting:
            self.schedule()
        self._waiting[controller] = None

    def take(self) -> list[T]:
        """Return the controllers that were added since the last call, in order."""
        taken, self._waiting = list(self._waiting), {}
        return taken
