# SPDX-License-Identifier: BSD-3-Clause
"""A program: writes numbered blocks to a namespace until it is killed; or checks them.

``numbered_blocks.py write JOURNAL URL`` writes blocks at random places.  Each write has a number,
which fills its block, and the journal gets a line for each write that is complete.

``numbered_blocks.py check JOURNAL URL`` reads all places, and prints in JSON how many have a
complete write, and a sentence for each that is older than that, or torn.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from nvmf.initiator import AnyNamespace, connect

BLOCK = 4096
PLACES = 256
STRIDE = 128 << 10
"""Bytes from one place to the next: the places are in many regions of a mirror."""
TASKS = 4


def block(number: int) -> bytes:
    return number.to_bytes(8, "little") * (BLOCK // 8)


def where(disk: AnyNamespace, place: int) -> int:
    return place * STRIDE // disk.block_size


async def write(journal: Path, url: str) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    async with connect(url) as controller:
        disk = controller.namespace(1)
        print("connected", flush=True)
        await asyncio.gather(*(_write(disk, file, task) for task in range(TASKS)))


async def _write(disk: AnyNamespace, file: int, task: int) -> None:
    number = 0
    while True:
        number += 1
        place = random.randrange(task, PLACES, TASKS)  # no two writes of a place at the same time
        await disk.write(where(disk, place), block(number), fua=True)
        os.write(file, b"%d %d\n" % (place, number))


def acknowledged(journal: Path) -> dict[int, int]:
    """Return the number of the last complete write of each place."""
    last: dict[int, int] = {}
    for line in journal.read_text().rpartition("\n")[0].splitlines():
        place, number = map(int, line.split())
        last[place] = max(number, last.get(place, 0))
    return last


async def check(journal: Path, url: str) -> None:
    last = acknowledged(journal)
    bad = []
    async with connect(url) as controller:
        disk = controller.namespace(1)
        for place in range(PLACES):
            data = await disk.read(where(disk, place), BLOCK // disk.block_size)
            number = int.from_bytes(data[:8], "little")
            if data != block(number):
                bad.append(f"place {place} is torn")
            elif number < last.get(place, 0):
                bad.append(f"place {place} has write {number}, and {last[place]} was complete")
    print(json.dumps({"written": len(last), "bad": bad}))


if __name__ == "__main__":
    work = {"write": write, "check": check}[sys.argv[1]]
    asyncio.run(work(Path(sys.argv[2]), sys.argv[3]))
