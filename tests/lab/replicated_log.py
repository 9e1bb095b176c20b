# SPDX-License-Identifier: BSD-3-Clause
"""A program: writes a log on several targets until it is killed; or recovers a log.

``replicated_log.py append JOURNAL URL...`` makes a new log and appends to it.  The journal gets a
line for each acknowledged record.  A line on standard input with the index of a replica brings that
one back, which it reports.

``replicated_log.py recover JOURNAL URL...`` recovers the log, and prints in JSON how many records
were acknowledged, and how many of these are there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from nvmf.pmem.demo import content
from nvmf.replication import Log, NamespaceReplica

QUORUM = 2
WRITERS = 8
SIZE = 192 << 20
"""Bytes of the log."""
PAUSE = 0.1
"""Seconds between two records of a task, so that the log does not fill while a target starts."""


def log_on(urls: list[str]) -> Log:
    return Log([NamespaceReplica(url) for url in urls], QUORUM, timeout=60.0)


async def append(journal: Path, urls: list[str]) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    numbers = itertools.count(1)
    async with log_on(urls) as log:
        await log.create(SIZE)
        print("created", flush=True)
        await asyncio.gather(_rejoin(log), *(_append(log, file, numbers) for _ in range(WRITERS)))


async def _append(log: Log, file: int, numbers: Iterator[int]) -> None:
    while True:
        number = next(numbers)
        lsn = await log.append(content(number))
        os.write(file, b"%d %d\n" % (lsn, number))
        await asyncio.sleep(PAUSE)


async def _rejoin(log: Log) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        await log.rejoin(int(line))
        print(f"rejoined {int(line)}", flush=True)


def acknowledged(journal: Path) -> dict[int, bytes]:
    """Return the acknowledged records by LSN; the last line of the journal may be incomplete."""
    if not journal.exists():
        return {}
    lines = journal.read_text().rpartition("\n")[0].splitlines()
    pairs = [line.split() for line in lines]
    return {int(lsn): content(int(number)) for lsn, number in pairs}


async def recover(journal: Path, urls: list[str]) -> None:
    async with log_on(urls) as log:
        await log.recover()
        found = {lsn: record async for lsn, record in log.records()}
        wanted = acknowledged(journal)
        good = sum(found.get(lsn) == record for lsn, record in wanted.items())
        out = [why for _, _, why in log.replicas if why]
        print(json.dumps({"acknowledged": len(wanted), "found": good, "out": out}))


if __name__ == "__main__":
    work = {"append": append, "recover": recover}[sys.argv[1]]
    asyncio.run(work(Path(sys.argv[2]), sys.argv[3:]))
