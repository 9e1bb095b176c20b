# SPDX-License-Identifier: BSD-3-Clause
"""A program, in the guest: a log whose replicas are device DAXes.

``dax_log.py append DAX...`` makes a new log, appends to it, and prints a line for each acknowledged
record, until it is killed.

``dax_log.py recover JOURNAL DAX...`` recovers the log, and prints in JSON how many records of these
lines there are, how many of them the log has, and why replicas are out.

``dax_log.py find DAX...`` prints in JSON the paths of the log's replicas, in their order, and of
the others: the kernel may number the DAXes of a machine differently at each boot.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from nvmf.pmem.demo import content
from nvmf.replication import Log, MappedReplica
from nvmf.replication.logformat import SLOT, Header

QUORUM = 2
WRITERS = 4
ACKNOWLEDGED = "acknowledged"


def log_on(paths: list[str]) -> Log:
    return Log([MappedReplica(path) for path in paths], QUORUM, timeout=60.0)


async def append(paths: list[str]) -> None:
    numbers = itertools.count(1)
    async with log_on(paths) as log:
        await log.create()
        print("created", flush=True)
        await asyncio.gather(*(_append(log, numbers) for _ in range(WRITERS)))


async def _append(log: Log, numbers: Iterator[int]) -> None:
    while True:
        number = next(numbers)
        lsn = await log.append(content(number))
        print(ACKNOWLEDGED, lsn, number, flush=True)
        await asyncio.sleep(0.05)


async def recover(journal: str, paths: list[str]) -> None:
    # The last line may be incomplete: the machine has lost its power while it was printed.
    lines = [line.split() for line in journal.rpartition("\n")[0].splitlines()]
    wanted = {int(line[1]): content(int(line[2])) for line in lines if line[0] == ACKNOWLEDGED}
    async with log_on(paths) as log:
        await log.recover()
        found = {lsn: record async for lsn, record in log.records()}
        good = sum(found.get(lsn) == record for lsn, record in wanted.items())
        out = [why for _, _, why in log.replicas if why]
        print(json.dumps({"acknowledged": len(wanted), "found": good, "out": out}))
        await log.append(b"one more")


async def find(paths: list[str]) -> None:
    log: dict[int, str] = {}
    others = []
    for path in paths:
        replica = MappedReplica(path)
        await replica.fence()
        header = Header.best([await replica.read(at, SLOT) for at in (0, SLOT)])
        await replica.close()
        if header is None:
            others.append(path)
        else:
            log[header.index] = path
    print(json.dumps({"log": [path for _, path in sorted(log.items())], "others": others}))


if __name__ == "__main__":
    if sys.argv[1] == "append":
        asyncio.run(append(sys.argv[2:]))
    elif sys.argv[1] == "find":
        asyncio.run(find(sys.argv[2:]))
    else:
        asyncio.run(recover(Path(sys.argv[2]).read_text(), sys.argv[3:]))
