# SPDX-License-Identifier: BSD-3-Clause
"""Replicas in files, and disks that hang."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from unittest import mock

from nvmf.replication import FileReplica

PATIENCE = 60.0


async def test_a_disk_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """Neither a different replica nor the default executor waits for its threads."""
    paths = [tmp_path / "hangs", tmp_path / "works"]
    for path in paths:
        path.write_bytes(b"x" * 8192)
    hangs, works = (FileReplica(path) for path in paths)
    await hangs.fence()
    await works.fence()
    pread, goes_on = os.pread, threading.Event()

    def slow(fd: int, length: int, offset: int) -> bytes:
        if fd == hangs._fd:
            goes_on.wait(PATIENCE)
        return pread(fd, length, offset)

    with mock.patch("nvmf.replication.filereplica.os.pread", slow):
        reads = [asyncio.create_task(hangs.read(0, 4096)) for _ in range(200)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(PATIENCE / 2):
                assert await works.read(4096, 4096) == b"x" * 4096
                assert await asyncio.to_thread(lambda: 1) == 1
            assert not any(read.done() for read in reads)
        finally:
            goes_on.set()
        assert set(await asyncio.gather(*reads)) == {b"x" * 4096}
    await hangs.close()
    await works.close()
