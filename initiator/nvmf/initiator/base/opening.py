# SPDX-License-Identifier: BSD-3-Clause
"""Something to await or to enter: what the functions that connect return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """What is connected, until it is closed."""

    async def close(self) -> None:
        """Disconnect."""


Opened = TypeVar("Opened", bound=Closable)


class Opening(Generic[Opened]):
    """Await it, and close() what comes; or enter it, and it is closed at the end."""

    def __init__(self, connect: Callable[[], Awaitable[Opened]]) -> None:
        self._connect = connect
        self._opened: Opened | None = None

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._connect().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
