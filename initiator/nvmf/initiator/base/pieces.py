# SPDX-License-Identifier: BSD-3-Clause
"""Long transfers, split into pieces of one command each, with several in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")
WIDTH = 16
"""Maximum pieces of one transfer in flight: 4 MiB of the pool's largest buffers."""


class Piece(NamedTuple):
    """The part of a transfer that one command does."""

    lba: int
    blocks: int
    offset: int
    """Bytes from the start of the transfer."""


def split(lba: int, blocks: int, limit: int, block_size: int) -> Iterator[Piece]:
    """Yield pieces of at most limit blocks, in order."""
    for done in range(0, blocks, limit):
        yield Piece(lba + done, min(limit, blocks - done), done * block_size)


def groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most size."""
    group: list[T] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


async def pipeline(
    pieces: Iterable[T], step: Callable[[T], Awaitable[None]], width: int = WIDTH
) -> None:
    """Do step for every piece, at most width of them at once.

    After the first failure no piece is begun, and the failure is raised when those that were begun
    have ended: a piece of a failed write must not replace the data of a later one. If the caller is
    cancelled, the pieces are cancelled: as with a single command, those that were sent may still
    be executed.
    """
    left = iter(pieces)
    failure: BaseException | None = None

    async def work() -> None:
        nonlocal failure
        try:
            for piece in left:
                if failure is not None:
                    return
                await step(piece)
        except BaseException as error:
            failure = failure or error
            raise

    await asyncio.gather(*(work() for _ in range(width)), return_exceptions=True)
    if failure is not None:
        try:
            raise failure
        finally:
            failure = None  # or it and its traceback would keep each other alive


async def transfer(
    lba: int,
    blocks: int,
    limit: int,
    block_size: int,
    step: Callable[[Piece], Awaitable[None]],
) -> None:
    """Do step for pieces of at most limit blocks of a range."""
    pieces = split(lba, blocks, limit, block_size)
    count = -(-blocks // limit)
    if count == 1:
        await step(next(pieces))
    elif count:
        await pipeline(pieces, step, min(count, WIDTH))
