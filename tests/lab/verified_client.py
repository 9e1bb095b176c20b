# SPDX-License-Identifier: BSD-3-Clause
"""A program: our Python client writes and verifies, until its standard input ends.

Its argument is a URL of a subsystem.  ``live`` and ``reconnecting`` are printed when the
controller enters that state, and ``round N`` for each round of its workers.  At the end all
written data is read once more; ``verified`` is the last line if all of it is correct.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import sys

from nvmf.initiator import Controller, Namespace, connect

NSID = 2
WORKERS = 8
AREA = 512
"""Blocks that belong to a worker."""
LENGTHS = (1, 2, 8, 16, 64, 256)
"""Blocks per write."""
ROUND = 8
"""Writes per round of a worker."""


class Worker:
    """Writes to its own range of the namespace, and knows the expected data."""

    def __init__(self, disk: Namespace, number: int) -> None:
        self._disk = disk
        self._first = number * AREA
        self._known: dict[int, bytes] = {}

    async def round(self) -> None:
        size = self._disk.block_size
        for _ in range(ROUND):
            length = random.choice(LENGTHS)
            at = self._first + random.randrange(AREA - length + 1)
            data = os.urandom(length * size)
            await self._disk.write(at, data, fua=random.random() < 0.1)
            for index in range(length):
                self._known[at + index] = data[index * size : (index + 1) * size]
            await self._check(at, length)

    async def check_all(self) -> None:
        for at in sorted(self._known):
            await self._check(at, 1)

    async def _check(self, at: int, length: int) -> None:
        wanted = b"".join(self._known[at + index] for index in range(length))
        found = bytes(await self._disk.read(at, length))
        if found != wanted:
            raise SystemExit(f"{length} blocks at {at} are not what was written")


async def _tell_states(controller: Controller) -> None:
    told = ""
    while True:
        if (state := controller.state.value) != told:
            print(told := state, flush=True)
        await asyncio.sleep(0.01)


async def main() -> None:
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    async with connect(sys.argv[1]) as controller:
        telling = asyncio.ensure_future(_tell_states(controller))
        disk = controller.namespace(NSID)
        workers = [Worker(disk, number) for number in range(WORKERS)]
        for number in itertools.count(1):
            await asyncio.gather(*(worker.round() for worker in workers))
            print(f"round {number}", flush=True)
            if ended.done():
                break
        await disk.flush()
        await asyncio.gather(*(worker.check_all() for worker in workers))
        telling.cancel()
    print("verified", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    asyncio.run(main())
