# SPDX-License-Identifier: BSD-3-Clause
"""A callback that is called until its subscription ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

E = TypeVar("E")


class Subscription(Generic[E]):
    """A registered callback: call this, or leave it as a context manager, to end the calls."""

    def __init__(self, callbacks: list[Callable[[E], object]], callback: Callable[[E], object]):
        """Append the callback to the list of those to call."""

        def registered(event: E) -> object:  # its own object: a callback may be there twice
            return callback(event)

        self._callbacks = callbacks
        self._registered = registered
        self._name = getattr(callback, "__qualname__", repr(callback))
        callbacks.append(registered)

    def __repr__(self) -> str:
        ended = "" if self._registered in self._callbacks else ", ended"
        return f"<Subscription of {self._name}{ended}>"

    def __call__(self) -> None:
        """End the subscription.  Idempotent."""
        if self._registered in self._callbacks:
            self._callbacks.remove(self._registered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self()
