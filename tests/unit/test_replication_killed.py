# SPDX-License-Identifier: BSD-3-Clause
"""Histories of a mirror of target processes on mapped files, while targets are killed and frozen,
paths are cut and stalled, and the writer is killed and deposed.

NVMF_HISTORY_SEEDS=N runs N seeds, which choose the order, the replicas and the accesses.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from pathlib import Path

import pytest

from support.mirrorcast import Cast

SEEDS = int(os.environ.get("NVMF_HISTORY_SEEDS") or 1)
EVENTS = ("kill", "freeze", "cut", "stall", "replace", "depose", "kill", "replace")


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_history_is_linearizable(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    events = list(EVENTS)
    rng.shuffle(events)
    async with Cast(tmp_path, seed) as cast:
        await cast.write(create=True)
        await cast.more(30)
        for event in events:
            index, accesses = rng.randrange(3), rng.randrange(5, 60)
            print(f"{event} {index}, {accesses} accesses")
            await getattr(cast, event)(index, accesses)
        # In the end a new writer reads every block.
        await cast.replace(0, 10)
        history = cast.history
        print(f"{history.completed} accesses, {history.written} writes")
    assert history.violation() is None
    assert history.completed > 200


async def test_a_quorum_that_is_too_small_is_caught(tmp_path: Path) -> None:
    """Two of three targets die, and a writer that wrongly acknowledges with one replica continues;
    then the other two return, and do not have its writes.
    """
    async with Cast(tmp_path, 0) as cast:
        old = await cast.write(create=True, acknowledge_at=1)
        await cast.until(lambda: old.says("clean"), "all replicas have everything")
        await cast.more(30)
        assert cast.history.violation() is None
        await cast.targets[1].kill()
        await cast.targets[2].kill()
        await cast.until(lambda: len(old.lost) >= 2, "the writer has lost both")
        await cast.more(20, written=5)
        await old.kill()
        await cast.targets[0].kill()
        await asyncio.gather(cast.targets[1].start(), cast.targets[2].start())
        await cast.write()
        await cast.more(10)
        found = cast.history.violation()
    assert found is not None
    # which of them depends on the block that is looked at first
    assert re.search("were both there at the same time|was written and seen only while", found)
