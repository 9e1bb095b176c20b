# SPDX-License-Identifier: BSD-3-Clause
"""Replicas in files, and disks that hang."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from nvmf.replication import FileReplica
from support.hungdisk import PATIENCE, hanging

PAGE = 4096


async def test_a_disk_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """Neither a different replica nor the default executor waits for its threads."""
    paths = [tmp_path / "hangs", tmp_path / "works"]
    for path in paths:
        path.write_bytes(b"x" * 2 * PAGE)
    hangs, works = (FileReplica(path) for path in paths)
    await hangs.fence()
    await works.fence()
    with hanging("pread", lambda _fd, _length, offset: offset == 0) as disk:
        reads = [asyncio.create_task(hangs.read(0, PAGE)) for _ in range(200)]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE / 2):
            assert await works.read(PAGE, PAGE) == b"x" * PAGE
            assert await asyncio.to_thread(lambda: 1) == 1
        assert not any(read.done() for read in reads)
        disk.goes_on.set()
        assert set(await asyncio.gather(*reads)) == {b"x" * PAGE}
    await hangs.close()
    await works.close()


async def test_a_file_system_that_hangs_when_a_file_is_opened(tmp_path: Path) -> None:
    """As NFS does without its server."""
    path = tmp_path / "hangs"
    path.write_bytes(bytes(PAGE))
    replica = FileReplica(path)
    with hanging("open", lambda name, *_: name == path) as disk:
        opening = asyncio.create_task(replica.fence())
        assert await asyncio.to_thread(disk.reached.wait, PATIENCE)
        opening.cancel()
        await asyncio.wait([opening])
        disk.goes_on.set()
        async with asyncio.timeout(PATIENCE):
            await replica.fence()  # what was given up has ended, and has not kept the lock
    await replica.close()


async def test_a_write_that_was_given_up_does_not_reach_a_different_file(tmp_path: Path) -> None:
    """A descriptor is not closed while a thread uses it, or other files could get its number."""
    path, others = tmp_path / "hangs", [tmp_path / f"other{n}" for n in range(32)]
    path.write_bytes(bytes(2 * PAGE))
    for other in others:
        other.write_bytes(bytes(2 * PAGE))
    replica = FileReplica(path)
    await replica.fence()
    opened: list[int] = []
    with hanging("pwrite", lambda *_: True) as disk:
        writes = [asyncio.create_task(replica.write(at, b"x" * PAGE)) for at in (0, PAGE)]
        assert await asyncio.to_thread(disk.reached.wait, PATIENCE)
        for write in writes:
            write.cancel()
        await asyncio.wait(writes)
        for _ in range(3):
            closing = asyncio.create_task(replica.close())
            await asyncio.wait([closing], timeout=0.05)
            closing.cancel()
            await asyncio.wait([closing])
        try:
            opened += [os.open(other, os.O_RDWR) for other in others]
            disk.goes_on.set()
            assert await asyncio.to_thread(disk.ended.acquire, timeout=PATIENCE)
            assert await asyncio.to_thread(disk.ended.acquire, timeout=PATIENCE)
            async with asyncio.timeout(PATIENCE):
                await replica.close()
        finally:
            for fd in opened:
                os.close(fd)
    assert [other.name for other in others if any(other.read_bytes())] == []


LEAVES = """
import asyncio, os, sys, threading
from nvmf.replication import FileReplica

async def main():
    replica = FileReplica(sys.argv[1])
    await replica.fence()
    os.pread = lambda *_: threading.Event().wait()
    reading = asyncio.create_task(replica.read(0, 4096))
    await asyncio.sleep(0.1)
    reading.cancel()

asyncio.run(main())
"""


def test_a_program_ends_while_a_disk_hangs(tmp_path: Path) -> None:
    path = tmp_path / "hangs"
    path.write_bytes(bytes(PAGE))
    subprocess.run([sys.executable, "-c", LEAVES, path], check=True, timeout=PATIENCE)
