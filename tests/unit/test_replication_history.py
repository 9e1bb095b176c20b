# SPDX-License-Identifier: BSD-3-Clause
"""Histories of NVMe hosts on a namespace whose store is a mirror, while parts of it fail."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from math import inf

import nvmf.target
from nvmf.initiator import ConnectError, ConnectionLost, NvmeError, connect
from nvmf.replication import Mirror
from nvmf.replication.history import Access, violation
from nvmf.replication.store import MirrorStore
from support.replicas import Memory

BLOCKS = 4
LOST = (ConnectError, ConnectionLost, NvmeError)


class Hosts:
    """Hosts that write and read few blocks, and connect again when their target is gone."""

    def __init__(self) -> None:
        self.url = ""
        self.ended = False
        self.accesses = 0
        self.histories: list[list[Access]] = [[] for _ in range(BLOCKS)]
        self._random = random.Random(7)
        self._values = iter(range(1, 1 << 30))

    async def run(self) -> None:
        """Run one host."""
        while not self.ended:
            with suppress(*LOST):
                async with connect(self.url, ctrl_loss_tmo=0) as controller:
                    disk = controller.namespace(1)
                    while not self.ended:
                        await self._access(disk)
            await asyncio.sleep(0.01)

    async def _access(self, disk: nvmf.initiator.Namespace) -> None:
        block = self._random.randrange(BLOCKS)
        history = self.histories[block]
        loop = asyncio.get_running_loop()
        start = loop.time()
        if self._random.random() < 0.5:
            value = next(self._values)
            end = inf  # if it fails, it may or may not have been done, or be done later
            try:
                await disk.write(block, value.to_bytes(8, "little") * 512)
                end = loop.time()
            finally:
                history.append(Access(value, start, end, True))
        else:
            data = await disk.read(block, 1)
            assert data == data[:8] * 512
            seen = int.from_bytes(data[:8], "little") or None
            history.append(Access(seen, start, loop.time(), False))
        self.accesses += 1

    async def more(self, count: int) -> None:
        """Wait until they have done so many accesses."""
        wanted = self.accesses + count
        async with asyncio.timeout(60):
            while self.accesses < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


def store_on(replicas: list[Memory]) -> MirrorStore:
    """Return the store of a mirror of these."""
    store = MirrorStore(["/nowhere"] * len(replicas), 2)
    store.mirror = Mirror(replicas, 2, timeout=0.5, patience=0.01, retry=0.03)
    return store


async def test_hosts_of_a_mirror_whose_replicas_and_writer_fail() -> None:
    replicas = [Memory(1 << 20) for _ in range(3)]
    async with Mirror(replicas, 2, resync_rate=None) as mirror:
        await mirror.create(region=8192)
        await mirror.clean()
    hosts = Hosts()
    running: list[asyncio.Task[None]] = []
    try:
        for turn in range(3):
            store = store_on(replicas)
            async with AsyncExitStack() as stack:
                target = await stack.enter_async_context(nvmf.target.serve(store=store))
                hosts.url = target.url
                if not running:
                    running = [asyncio.create_task(hosts.run()) for _ in range(4)]
                await hosts.more(20)
                for index, replica in enumerate(replicas):
                    if (turn + index) % 2:
                        replica.broken = True
                    else:
                        replica.frozen.clear()
                    await hosts.more(20)
                    replica.broken = False
                    replica.frozen.set()
                    await hosts.more(5)
                    async with asyncio.timeout(60):
                        await store.mirror.clean()
                if turn == 2:
                    hosts.ended = True
                    await asyncio.gather(*running)
            # The mirror's writer ends in the middle of the load, and a new one takes over.
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for history in hosts.histories:
        assert len(history) > 20
        assert violation(history) is None
