# SPDX-License-Identifier: BSD-3-Clause
"""A connection that begins when somebody awaits or enters it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """What is connected, until it is closed."""

    async def close(self) -> None:
        """Disconnect."""


Connected = TypeVar("Connected", bound=Closable)


class Pending(Generic[Connected]):
    """What the functions that connect return.

    Await it, and close() the result; or enter it, and the result is closed at the end.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connected]]) -> None:
        self._connect = connect
        self._connected: Connected | None = None

    def __await__(self) -> Generator[Any, None, Connected]:
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
