# SPDX-License-Identifier: BSD-3-Clause
"""NVMe hosts that write and read few blocks, and record what they see."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from math import inf

from nvmf.initiator import ConnectError, ConnectionLost, Namespace, NvmeError, connect
from nvmf.replication.history import Access, violation

BLOCKS = 4
LOST = (ConnectError, ConnectionLost, NvmeError)


class Hosts:
    """Hosts that write and read few blocks, and connect again when their target has ended."""

    def __init__(self, step: int = 1) -> None:
        """step: blocks of the namespace for each block of 4 KiB that the hosts use."""
        self._step = step
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

    async def _access(self, disk: Namespace) -> None:
        block = self._random.randrange(BLOCKS)
        history = self.histories[block]
        loop = asyncio.get_running_loop()
        start = loop.time()
        if self._random.random() < 0.5:
            value = next(self._values)
            end = inf  # if it fails, it may or may not have been done, or be done later
            try:
                await disk.write(block * self._step, value.to_bytes(8, "little") * 512)
                end = loop.time()
            finally:
                history.append(Access(value, start, end, True))
        else:
            data = await disk.read(block * self._step, self._step)
            assert data == data[:8] * 512
            seen = int.from_bytes(data[:8], "little") or None
            history.append(Access(seen, start, loop.time(), False))
        self.accesses += 1

    async def more(self, count: int) -> None:
        """Wait until the hosts have completed this many accesses."""
        wanted = self.accesses + count
        async with asyncio.timeout(60):
            while self.accesses < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def check(self) -> None:
        """Raise AssertionError unless the history of each block is linearizable."""
        for history in self.histories:
            assert len(history) > 20
            assert violation(history) is None
