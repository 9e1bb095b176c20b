# SPDX-License-Identifier: BSD-3-Clause
"""Operations of a mirror without a quorum that nobody waits for any longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

import pytest

from nvmf.replication import Mirror, MirrorState
from support.replicas import Memory

SIZE = 1 << 20
REGION = 64 << 10
BLOCK = 4096
PATIENCE = 60.0

Work = Callable[[Mirror], Coroutine[None, None, object]]


def page(number: int, blocks: int = 1) -> bytes:
    return bytes([number]) * (blocks * BLOCK)


WORKS: dict[str, Work] = {
    "write": lambda mirror: mirror.write(0, page(2)),
    "regions": lambda mirror: mirror.write(0, page(2, 3 * REGION // BLOCK)),
    "many": lambda mirror: mirror.write_many([at * BLOCK for at in range(0, 64, 2)], page(2, 32)),
    "read": lambda mirror: mirror.read(0, BLOCK),
}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def given_up(work: Awaitable[object]) -> None:
    """Begin an operation, and end the task that waits for it."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0.01)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("what", WORKS)
async def test_a_mirror_forgets_what_it_has_not_begun(what: str) -> None:
    """Or hosts that try again would fill the memory, for as long as there is no quorum."""
    legs = [Memory(SIZE), Memory(SIZE)]
    async with Mirror(legs, 2, retry=0.02, resync_rate=None) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        core = mirror._core
        legs[1].broken = True
        first = asyncio.create_task(mirror.write(0, page(1)))
        await until(lambda: mirror.state is MirrorState.BLOCKED)
        for _ in range(20):
            await given_up(WORKS[what](mirror))
        waiting = [piece for region in core.regions() for piece in region.waiting]
        assert [piece for piece in waiting if piece.data != page(1)] == []
        assert len(core.ops) == len(mirror._shell._asked) == 1
        legs[1].broken = False
        async with asyncio.timeout(PATIENCE):
            await first
            assert await mirror.read(0, BLOCK) == page(1)
            await mirror.write(0, page(3, 64))
            assert await mirror.read(0, 64 * BLOCK) == page(3, 64)
            await mirror.clean()
    assert legs[0].bytes[-SIZE // 2 :] == legs[1].bytes[-SIZE // 2 :]
