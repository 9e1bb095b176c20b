# SPDX-License-Identifier: BSD-3-Clause
"""A connection that is made when it is awaited or entered."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """A connected object."""

    async def close(self) -> None:
        """Disconnect."""


Connected = TypeVar("Connected", bound=Closable)


class Pending(Generic[Connected]):
    """The result of the functions that connect.

    Await it, and close() the result; or enter it, and the result is closed at the end. Nothing is
    sent before. If it is neither awaited nor entered, it warns (RuntimeWarning), as coroutines do.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connected]], call: str) -> None:
        """call: the function and its address, for display."""
        self._connect = connect
        self._call = call
        self._begun = False
        self._connected: Connected | None = None
        caller = sys._getframe(2)  # of the function that connects
        self._made = f"{caller.f_code.co_filename}:{caller.f_lineno}"

    def __repr__(self) -> str:
        return f"<Pending {self._call}, {'awaited' if self._begun else 'not awaited yet'}>"

    def __await__(self) -> Generator[object, None, Connected]:
        self._begun = True
        return self._connect().__await__()

    async def __aenter__(self) -> Connected:
        self._connected = await self
        return self._connected

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._connected is not None:
            await self._connected.close()

    def __del__(self) -> None:
        if not getattr(self, "_begun", True):
            warnings.warn(
                f"{self._call} at {self._made} was neither awaited nor entered with 'async with'",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )
