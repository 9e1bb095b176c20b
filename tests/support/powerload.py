# SPDX-License-Identifier: BSD-3-Clause
"""A program: write records by several methods of persistence at the same time, until it is killed.

Its argument is a Plan in JSON.  When standard input has a line, it reads the memory into a file,
and prints ``read``; then it writes, and notes in a journal what it sends and what was acknowledged
(see powerrecords).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias, cast

from nvmf.initiator import AnyNamespace, connect
from nvmf.pmem import Method
from nvmf.pmem.block import BlockMethod
from nvmf.pmem.platform import BLOCK_METHODS
from nvmf.pmem.remote import MemoryMethod, RemoteMemory
from support.powerrecords import AREA, BLOCK, Journal, Write

Device: TypeAlias = Literal["iwarp", "roce", "system"]
HOST = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-000000000077"
BLOCKS = (1, 1, 4, 16)
"""Blocks of a write by NVMe commands."""
BYTES = (8, 64, 1000, 4096, 65536)
"""Bytes of a write by remote memory, at any offset."""


@dataclass(frozen=True, slots=True)
class Way:
    """A method, over a device, to a port."""

    method: str
    device: Device
    """The RDMA device of this host."""
    url: str
    """URL of the subsystem, without options."""
    force: bool = False
    """Use the method although the target does not confirm what it assumes."""
    workers: int = 2

    def __str__(self) -> str:
        return f"{self.method} by {self.device}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The work between two crashes."""

    life: int
    """Number of the time between crashes, which is part of the records' names."""
    seed: int
    ways: tuple[Way, ...]
    image: str
    """The file for the initial content of the memory."""
    journal: str
    host_traddr: str | None = None
    load: bool = True
    """Whether to write; otherwise the program ends after reading."""

    @property
    def size(self) -> int:
        """The bytes that are used, and those after them of one more worker, which no one writes."""
        return (sum(way.workers for way in self.ways) + 1) * AREA

    def encode(self) -> str:
        """Return the plan as an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the plan in an argument."""
        given = json.loads(text)
        return cls(**{**given, "ways": tuple(Way(**way) for way in given["ways"])})


class Load:
    """Connections of a plan."""

    def __init__(self, plan: Plan, stack: AsyncExitStack) -> None:
        self._plan = plan
        self._stack = stack
        self._disks: dict[str, AnyNamespace] = {}
        self._journal = Journal(Path(plan.journal))

    async def disk(self, way: Way) -> AnyNamespace:
        """Return the namespace over the device of a way."""
        if way.url not in self._disks:
            options = "connect_timeout=60&io_timeout=120&kato=120&queues=1"
            if self._plan.host_traddr:
                options += f"&host_traddr={self._plan.host_traddr}"
            url = f"{way.url}?device={way.device}&{options}"
            controller = await self._stack.enter_async_context(connect(url, hostnqn=HOST))
            self._disks[way.url] = controller.namespace(1)
        return self._disks[way.url]

    async def _method(self, way: Way) -> Method:
        if way.method in BLOCK_METHODS:
            name = cast(Literal["nvme-fua", "nvme-write-flush"], way.method)
            return BlockMethod(await self.disk(way), name)
        memory = await RemoteMemory.connect(
            way.url,
            method=cast(MemoryMethod, way.method),
            force=way.force,
            hostnqn=HOST,
            host_traddr=self._plan.host_traddr,
            device=way.device,
            depth=way.workers,
            connect_timeout=60,
        )
        return await self._stack.enter_async_context(memory)

    async def run(self) -> None:
        """Write until the process ends."""
        workers: list[Coroutine[None, None, None]] = []
        for way in self._plan.ways:
            method = await self._method(way)
            for _ in range(way.workers):
                workers.append(self._work(len(workers), way, method))
        await asyncio.gather(*workers)

    async def _work(self, worker: int, way: Way, method: Method) -> None:
        rng = random.Random(f"{self._plan.seed} {self._plan.life} {worker}")
        number = 0
        while True:
            number += 1
            if way.method in BLOCK_METHODS:
                length = rng.choice(BLOCKS) * BLOCK
                offset = rng.randrange((AREA - length) // BLOCK + 1) * BLOCK
            else:
                length = rng.choice(BYTES)
                offset = rng.randrange(AREA - length + 1)
            write = Write(
                worker,
                f"{self._plan.life}.{worker}.{number}",
                worker * AREA + offset,
                length,
                # Of a longer write, a power failure may tear any block.
                way.method in BLOCK_METHODS and length == BLOCK,
            )
            data = write.data
            self._journal.issue(write)
            await method.write(write.offset, data)
            self._journal.acknowledge(worker)


async def main(plan: Plan) -> None:
    async with AsyncExitStack() as stack:
        load = Load(plan, stack)
        disk = await load.disk(plan.ways[0])
        found = await disk.pread(plan.size, 0)
        with open(plan.image, "wb") as file:  # noqa: ASYNC230
            file.write(found)
        print("read", flush=True)
        if plan.load:
            await load.run()


if __name__ == "__main__":
    sys.stdin.readline()
    asyncio.run(main(Plan.decode(sys.argv[1])))
