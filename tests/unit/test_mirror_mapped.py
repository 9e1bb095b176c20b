# SPDX-License-Identifier: BSD-3-Clause
"""Mapped memory of the target's machine as a leg of a mirror, and as a replica."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import nvmf.target
from nvmf import engine
from nvmf.config import ConfigError, loads
from nvmf.initiator import connect
from nvmf.replication import Log, MappedReplica, Mirror, ReplicaError
from support.mirrorlab import clean, data_of, mirror_text, state_of
from support.replicas import files

SIZE = 4 << 20


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on tmpfs, whose files are mapped."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def mapped(path: Path) -> bool:
    store = engine.Store("pmem", path=str(path))
    try:
        return store.mapped
    finally:
        store.close()


def page(number: int) -> bytes:
    return number.to_bytes(4, "little") * 1024


async def test_a_leg_of_a_namespace(tmp_path: Path, memory: Path) -> None:
    """It is written, lost, found again after a restart, and the same as the other leg."""
    (disk,) = files(tmp_path, 1, SIZE)
    (leg,) = files(memory, 1, SIZE)
    text = mirror_text([f'path = "{disk}"', f'path = "{leg}"\nstore = "pmem"'], "quorum = 2")
    for turn in range(2):
        async with nvmf.target.serve(text) as target, connect(target.url) as controller:
            await clean(target, 2)
            assert [one["name"] for one in state_of(target)["legs"]] == [str(disk), str(leg)]
            namespace = controller.namespace(1)
            for n in range(8):
                if turn:
                    assert await namespace.read(n * 16, 8) == page(n)
                await namespace.write(n * 16, page(n))
            await namespace.write(3, b"\7" * 512)  # a part of a page
            await asyncio.gather(*(namespace.write(1024 + n * 8, page(n)) for n in range(64)))
            await namespace.write(3, page(0)[:512])
    assert data_of(disk) == data_of(leg)


async def test_replicas(memory: Path) -> None:
    paths = files(memory, 3, SIZE)
    async with Mirror(list(map(MappedReplica, paths)), 2) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
        await mirror.write(0, page(1) * 64)
        assert await mirror.read(0, 4096 * 64) == page(1) * 64
        busy = MappedReplica(paths[0])
        with pytest.raises(ReplicaError, match="is served by another target or namespace"):
            await busy.fence()
    assert data_of(paths[0]) == data_of(paths[1]) == data_of(paths[2])
    async with Log(list(map(MappedReplica, paths)), 2) as log:
        await log.create()
        lsns = [await log.append(b"record %d" % n) for n in range(10)]
    async with Log(list(map(MappedReplica, paths)), 2) as log:
        await log.recover()
        found = [lsn async for lsn, _ in log.records()]
        assert found == lsns


async def test_what_cannot_be_a_mapped_replica(tmp_path: Path, memory: Path) -> None:
    (plain,) = files(tmp_path, 1, SIZE)
    if not mapped(plain):  # that folder may be on tmpfs as well
        with pytest.raises(ReplicaError, match="is not memory"):
            await MappedReplica(plain).fence()
    with pytest.raises(ReplicaError, match="does not exist"):
        await MappedReplica(memory / "absent").fence()
    closed = MappedReplica(plain)
    with pytest.raises(ReplicaError, match="is not open"):
        await closed.read(0, 4096)
    with pytest.raises(ReplicaError, match="is not open"):
        await closed.write(0, page(1))
    for leg in ('ram = "1MiB"\nstore = "pmem"', 'path = "/a"\nstore = "ram"'):
        with pytest.raises(ConfigError, match="store"):
            loads(mirror_text([leg, 'path = "/b"']))


def test_a_store_in_place(memory: Path) -> None:
    (path,) = files(memory, 1, SIZE)
    store = engine.Store("pmem", path=str(path))
    try:
        assert store.mapped
        store.write(100, b"bytes")
        assert store.read(98, 9) == b"\0\0bytes\0\0"
        store.write(4000, b"x" * 10000)
        assert store.read(4000, 10000) == b"x" * 10000
        assert store.read(SIZE, 0) == b""
        for offset, length in ((SIZE, 1), (SIZE - 1, 2), (1 << 63, 1)):
            with pytest.raises(ValueError, match="are not in"):
                store.read(offset, length)
            with pytest.raises(ValueError, match="are not in"):
                store.write(offset, bytes(length))
        os.truncate(path, 0)
        with pytest.raises(OSError, match="cannot read the store"):
            store.read(0, 4096)
        with pytest.raises(OSError, match="cannot write the store"):
            store.write(0, b"x")
    finally:
        store.close()
    disk = engine.Store("null", size=SIZE)
    try:
        with pytest.raises(ValueError, match="is not mapped"):
            disk.read(0, 1)
    finally:
        disk.close()
