# SPDX-License-Identifier: BSD-3-Clause
"""Compare and Write of the client: fused, atomic, and with no command between the halves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from nvmf.initiator import (
    Namespace,
    NvmeError,
    connect,
)
from nvmf.spec.status import Status
from nvmf.target.service.server import Server
from support.clientlab import OPTIONS


@pytest.fixture
async def small(served: tuple[Server, str]) -> AsyncIterator[Namespace]:
    """A namespace with blocks of 512 bytes."""
    async with connect(served[1], **{**OPTIONS, "queues": 2}) as controller:
        yield controller.namespace(1)


@pytest.mark.feature("fused")
async def test_compare_and_write(small: Namespace) -> None:
    old, new = bytes(512), b"n" * 512
    await small.compare_and_write(7, old, new)
    assert await small.read(6, 3) == old + new + old
    with pytest.raises(NvmeError, match=r"Compare and Write .*Compare Failure") as raised:
        await small.compare_and_write(7, old, b"x" * 512, fua=True)
    assert raised.value.status == Status.COMPARE_FAILURE
    assert await small.read(7, 1) == new
    with pytest.raises(NvmeError, match="Invalid Field"):  # more than ACWU
        await small.compare_and_write(7, new + old, old + new)
    with pytest.raises(NvmeError, match="LBA Out of Range"):
        await small.compare_and_write(1 << 40, old, new)
    with pytest.raises(ValueError, match="512 bytes to compare with and 1024"):
        await small.compare_and_write(7, old, new + new)
    await asyncio.gather(*(small.compare_and_write(lba, old, new) for lba in range(100, 200)))
    assert await small.read(100, 100) == new * 100


@pytest.mark.feature("fused")
async def test_halves_stay_together(served: tuple[Server, str]) -> None:
    """No command of a full queue is sent between the two of a pair."""
    old, new = bytes(512), b"n" * 512
    async with connect(served[1], **OPTIONS, queue_depth=32) as host:
        disk = host.namespace(1)

        async def verify() -> None:
            for _ in range(20):
                await disk.verify(0, 1)

        pairs = (disk.compare_and_write(lba, old, new) for lba in range(100, 200))
        await asyncio.gather(*pairs, *(verify() for _ in range(200)))
        assert await disk.read(100, 100) == new * 100


@pytest.mark.feature("fused")
async def test_two_hosts_lock_one_block(served: tuple[Server, str]) -> None:
    """Each takes the lock, increments a counter that only its holder writes, and releases the
    lock.
    """
    rounds, free = 50, bytes(512)

    async def taken(namespace: Namespace, mine: bytes) -> bool:
        try:
            await namespace.compare_and_write(0, free, mine)
        except NvmeError as error:
            if error.status != Status.COMPARE_FAILURE:
                raise
            return False
        return True

    async def work(mine: bytes) -> None:
        async with connect(served[1], **OPTIONS) as host:
            namespace = host.namespace(1)
            for _ in range(rounds):
                while not await taken(namespace, mine):
                    pass
                count = int.from_bytes(await namespace.read(1, 1), "little")
                await namespace.write(1, (count + 1).to_bytes(512, "little"))
                await namespace.compare_and_write(0, mine, free)

    await asyncio.gather(work(b"a" * 512), work(b"b" * 512))
    async with connect(served[1], **OPTIONS) as host:
        assert int.from_bytes(await host.namespace(1).read(1, 1), "little") == 2 * rounds


@pytest.mark.feature("fused")
async def test_halves_stay_together_beside_a_batch(small: Namespace) -> None:
    """A batch that fills the queue sends no command between the two, and continues after them."""
    batch = asyncio.create_task(small.read_many(range(8000), bytearray(8000 * 512)))
    for number in range(20):
        old, new = bytes([number]) * 512, bytes([number + 1]) * 512
        await small.compare_and_write(9000, old, new)
    async with asyncio.timeout(60):
        assert await batch == 8000 * 512
    assert await small.read(9000, 1) == bytes([20]) * 512
