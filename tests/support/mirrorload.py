# SPDX-License-Identifier: BSD-3-Clause
"""A program: the writer of a mirror.  Tasks read and write a few blocks of it until it is killed.

Its argument is a Plan in JSON.  Its journal has a line before each write and one after it, and one
for each read, with times of the clock that all processes of a machine share; History joins the
journals of all writers.  It prints ``open``, ``lost REPLICA``, ``clean`` and ``deposed``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Self

from nvmf.replication import Deposed, Mirror, NamespaceReplica, QuorumLost, ReplicationError
from nvmf.replication.history import Access, violation

BLOCKS = 4
STRIDE = 4096
"""Bytes from one block to the next: two of them are in a region."""
REGION = 8192
TASKS = 6
TORN = -1
"""A value that no writer writes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A writer."""

    number: int
    """The number of the writer: part of its values, and of its seed."""
    seed: int
    urls: tuple[str, ...]
    journal: str
    create: bool = False
    acknowledge_at: int = 0
    """If not 0: acknowledge as soon as this many replicas have a write, which is wrong."""
    timeout: float = 2.0
    """Seconds after which a replica that does not answer is lost."""
    patience: float = 0.02
    """Seconds for which a write waits for slower replicas."""

    def encode(self) -> str:
        """Return the plan as an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the plan in an argument."""
        given = json.loads(text)
        return cls(**{**given, "urls": tuple(given["urls"])})


class Writer:
    """Reads and writes."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = random.Random(f"{plan.seed} {plan.number}")
        self._next = plan.number << 32
        self._journal = os.open(plan.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def run(self) -> None:
        """Open the mirror, read every block, and then write and read until it is deposed."""
        async with await self._opened() as mirror:
            print("open", flush=True)
            for block in range(BLOCKS):
                await self._read(mirror, block)
            tasks = [self._work(mirror) for _ in range(TASKS)]
            await asyncio.gather(self._tell_clean(mirror), *tasks)

    async def _opened(self) -> Mirror:
        while True:
            mirror = Mirror(
                [NamespaceReplica(url) for url in self._plan.urls],
                2,
                timeout=self._plan.timeout,
                patience=self._plan.patience,
                retry=0.1,
                resync_rate=None,
                lost=lambda name, why: print(f"lost {name}: {why}", flush=True),
            )
            try:
                if self._plan.create:
                    await mirror.create(region=REGION)
                else:
                    await mirror.open()
            except QuorumLost as error:  # a replica was too slow
                print(error, flush=True)
                await mirror.close()
                await asyncio.sleep(0.1)
                continue
            if self._plan.acknowledge_at:
                mirror._core.quorum = self._plan.acknowledge_at
            return mirror

    async def _tell_clean(self, mirror: Mirror) -> None:
        await mirror.clean()
        print("clean", flush=True)

    async def _work(self, mirror: Mirror) -> None:
        while True:
            block = self._random.randrange(BLOCKS)
            if self._random.random() < 0.5:
                await self._write(mirror, block)
            else:
                await self._read(mirror, block)

    async def _write(self, mirror: Mirror, block: int) -> None:
        self._next += 1
        value = self._next
        data = value.to_bytes(8, "little") * (mirror.block_size // 8)
        self._note("write", block, value, time.monotonic())
        await mirror.write(block * STRIDE, data)
        self._note("written", block, value, time.monotonic())

    async def _read(self, mirror: Mirror, block: int) -> None:
        start = time.monotonic()
        data = await mirror.read(block * STRIDE, mirror.block_size)
        end = time.monotonic()
        whole = data == data[:8] * (mirror.block_size // 8)
        value = int.from_bytes(data[:8], "little") if whole else TORN
        self._note("read", block, value, start, end)

    def _note(self, *words: object) -> None:
        os.write(self._journal, (" ".join(map(repr, words)) + "\n").encode())


class History:
    """The accesses in the journals of all writers."""

    def __init__(self, journals: Iterable[Path]) -> None:
        self.completed = 0
        self.written = 0
        """Writes that were acknowledged."""
        self._blocks: list[list[Access]] = [[] for _ in range(BLOCKS)]
        for path in journals:
            if path.exists():
                self._join(path.read_text().rpartition("\n")[0].splitlines())

    def _join(self, lines: Iterable[str]) -> None:
        started: dict[int, tuple[int, float]] = {}
        for line in lines:
            what, block, value, *times = line.split()
            number, at = int(value), [float(each) for each in times]
            match what.strip("'"):
                case "write":
                    started[number] = int(block), at[0]
                    continue
                case "written":
                    where, start = started.pop(number)
                    self._blocks[where].append(Access(number, start, at[0], True))
                    self.written += 1
                case "read":
                    seen = number or None
                    self._blocks[int(block)].append(Access(seen, at[0], at[1], False))
            self.completed += 1
        for number, (where, start) in started.items():  # done, or not, or later
            self._blocks[where].append(Access(number, start, inf, True))

    def violation(self) -> str | None:
        """Return why a block is not linearizable; None if all are."""
        found = (violation(accesses) for accesses in self._blocks)
        return next((f"block {i}: {why}" for i, why in enumerate(found) if why), None)


async def main(plan: Plan) -> None:
    with suppress(Deposed):
        try:
            await Writer(plan).run()
        except ReplicationError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            raise
    print("deposed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Plan.decode(sys.argv[1])))
