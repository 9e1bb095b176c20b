# SPDX-License-Identifier: BSD-3-Clause
"""The items of an asynchronous iterator, for a caller on a different thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

from nvmf.initiator.base.background import finished
from nvmf.initiator.sync.blocking import Loop

T = TypeVar("T")


class Items(Generic[T]):
    """Takes the items of an iterator, one after the other."""

    def __init__(self, loop: Loop, iterator: AsyncIterator[T]) -> None:
        self._loop = loop
        self._iterator = iterator
        self._taking: asyncio.Task[object] | None = None

    def each(self) -> Generator[T, None, None]:
        """Yield the items."""
        while (found := self._loop.call(self._next())) is not None:
            yield found

    async def _next(self) -> T | None:
        """Return the next item; None at the end."""
        self._taking = asyncio.current_task()
        return await anext(self._iterator, None)

    async def ended(self) -> None:
        """Wait until nobody takes an item.

        An interrupted caller has not waited for the end of that, and meanwhile the iterator cannot
        be closed.
        """
        if self._taking is not None:
            await finished([self._taking])


def items_of(
    loop: Loop, generator: AsyncGenerator[T, None]
) -> AbstractContextManager[Generator[T, None, None]]:
    """Yield the items of a generator, which is closed at the end."""
    return items_until(loop, generator, generator.aclose)


@contextmanager
def items_until(
    loop: Loop, iterator: AsyncIterator[T], close: Callable[[], Coroutine[object, object, object]]
) -> Generator[Generator[T, None, None], None, None]:
    """Yield the items of an iterator, which close ends when nobody takes one."""
    items = Items(loop, iterator)
    try:
        yield items.each()
    finally:
        if not loop.gone:
            try:
                loop.call(items.ended())
            finally:
                loop.call(close())
