# SPDX-License-Identifier: BSD-3-Clause
"""A mirror with a replica whose disk hangs: nothing waits for it without limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nvmf.replication import FileReplica, LegState, Mirror
from support.hungdisk import PATIENCE, hanging
from support.replicas import files, on

PAGE = b"\x5a" * 4096


@asynccontextmanager
async def one_hangs(tmp_path: Path) -> AsyncIterator[tuple[Mirror, list[Path]]]:
    """Yield an open mirror of three files, of which the first one hangs, and the files."""
    paths = files(tmp_path)
    mirror = Mirror(on(paths), 2, timeout=3, retry=PATIENCE, resync_rate=None)
    await mirror.create()
    await mirror.clean()

    def concerns(fd: int, *_: object) -> bool:
        return os.readlink(f"/proc/self/fd/{fd}") == str(paths[0])

    with hanging("pwrite", concerns):
        await mirror.write(0, PAGE)
        async with asyncio.timeout(PATIENCE):
            while mirror.replicas[0].state is not LegState.OUT:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield mirror, paths
    await mirror.close()


async def test_it_is_closed(tmp_path: Path) -> None:
    async with one_hangs(tmp_path) as (mirror, paths):
        async with asyncio.timeout(PATIENCE / 4):
            await mirror.close()
        for path in paths[1:]:
            replica = FileReplica(path)
            await replica.fence()  # nobody has its lock
            await replica.close()


async def test_the_replica_is_replaced(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(bytes(1 << 20))
    async with one_hangs(tmp_path) as (mirror, _):
        async with asyncio.timeout(PATIENCE / 4):
            await mirror.replace(0, FileReplica(other))
            await mirror.clean()
        await mirror.write(4096, PAGE)
