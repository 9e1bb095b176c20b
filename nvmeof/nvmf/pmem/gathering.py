# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that belong together: the parts of one operation, and those of a load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def all_of(work: Sequence[Awaitable[T]]) -> list[T]:
    """Run all; when one fails, wait for the others before the failure is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    if tasks:
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
    failures = [error for task in tasks if (error := task.exception()) is not None]
    if failures:
        raise failures[0]
    return [task.result() for task in tasks]


async def load_of(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Run all; when one fails, cancel the others, and raise the failure itself, not a group."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
