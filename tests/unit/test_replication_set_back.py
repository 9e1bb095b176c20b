# SPDX-License-Identifier: BSD-3-Clause
"""A replica of a mirror is set back, as by a snapshot of its storage, while a writer uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from nvmf.replication import Mirror, mirrorformat
from support.replicas import Memory

REGION = 64 << 10
START = mirrorformat.START + 4096


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def page(number: int) -> bytes:
    return number.to_bytes(4, "little") * 1024


async def counted_in(mirror: Mirror, replica: int) -> None:
    """Write, until the writer has counted a replica in once more."""
    joins = mirror._core.joins
    before, number = joins[replica], 0
    async with asyncio.timeout(60):
        while joins[replica] == before:
            number += 1
            await mirror.write(REGION, page(number))
            await asyncio.sleep(0.002)
    await until(lambda: not mirror._core.heading)


@pytest.mark.parametrize("same_writer", [True, False])
@pytest.mark.parametrize("lost", [0, 1])
async def test_a_replica_is_set_back(lost: int, same_writer: bool) -> None:
    """Nothing but data has changed since the snapshot: the region was open before, and after."""
    replicas = [Memory(1 << 20) for _ in range(3)]
    mirror = Mirror(replicas, 2, resync_rate=None, retry=0.02)
    mirror._core.beat = 0.01
    async with mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        await mirror.write(0, page(1))
        await counted_in(mirror, lost)
        snapshot = bytes(replicas[lost].bytes)
        await mirror.write(0, page(2))
        await counted_in(mirror, lost)
        if same_writer:
            replicas[lost].broken = True
            await mirror.write(2 * REGION, page(3))
            await until(lambda: mirror.replicas[lost].state.value == "out")
            replicas[lost].bytes[:] = snapshot
            replicas[lost].broken = False
            await mirror.clean()
            for _ in range(6):
                assert await mirror.read(0, 4096) == page(2)
        else:
            await mirror._shell.close()  # as if its process died
    if not same_writer:
        replicas[lost].bytes[:] = snapshot
        async with Mirror(replicas, 2, resync_rate=None) as after:
            await after.open()
            for _ in range(6):
                assert await after.read(0, 4096) == page(2)
            await after.clean()
    for replica in replicas:
        assert replica.bytes[START:] == replicas[0].bytes[START:]
    assert replicas[0].bytes[START : START + 4096] == page(2)
