# SPDX-License-Identifier: BSD-3-Clause
"""Replicas of a Mirror that report wrong data, fail during an operation, or belong to someone
else.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from nvmf.engine import crc32c
from nvmf.replication import (
    Deposed,
    FileReplica,
    LegState,
    Log,
    Mirror,
    MirrorState,
    QuorumLost,
    ReplicationError,
    mirrorformat,
)
from support.replicas import Frozen, Memory, files, on

REGION = 64 << 10
PAGE = b"\x5a" * 4096


def spoil_version(path: Path) -> None:
    data = bytearray(path.read_bytes())
    size = mirrorformat._HEADER.size
    for slot in (0, mirrorformat.SLOT):
        data[slot + 8] = 9
        crc = crc32c(bytes(data[slot : slot + size]))
        data[slot + size : slot + size + 4] = crc.to_bytes(4, "little")
    path.write_bytes(data)


def spoil_checksums(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for slot in (0, mirrorformat.SLOT):
        data[slot + 30] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("blank", "no valid header"),
        ("checksums", "no valid header"),
        ("other mirror", "a different mirror"),
        ("wrong place", "it is replica 1 of a mirror of 3"),
        ("other version", "version 9 of the mirror's format"),
        ("too small", "it has 524288 bytes, and its header says"),
    ],
)
async def test_a_wrong_replica_is_left_out(tmp_path: Path, which: str, words: str) -> None:
    paths = files(tmp_path)
    (tmp_path / "more").mkdir()
    others = files(tmp_path / "more")
    async with Mirror(on(paths), 2) as mirror, Mirror(on(others), 2) as other:
        await mirror.create(region=REGION)
        await mirror.clean()
        await mirror.write(0, PAGE)
        await other.create(region=REGION)
        await other.clean()
    if which == "blank":
        paths[2].write_bytes(bytes(1 << 20))
    elif which == "checksums":
        spoil_checksums(paths[2])
    elif which == "other mirror":
        paths[2].write_bytes(others[2].read_bytes())
    elif which == "wrong place":
        paths[2].write_bytes(paths[1].read_bytes())
    elif which == "other version":
        spoil_version(paths[2])
    else:
        paths[2].write_bytes(paths[2].read_bytes()[: 512 << 10])
    before = paths[2].read_bytes()
    async with Mirror(on(paths), 2, retry=600) as mirror:
        await mirror.open()
        assert mirror.replicas[2].state is LegState.OUT
        assert words in mirror.replicas[2].why
        for _ in range(3):
            assert await mirror.read(0, 4096) == PAGE
        await mirror.write(4096, PAGE)
        assert mirror.state is MirrorState.DEGRADED
        with pytest.raises(ReplicationError, match=re.escape(words)):
            await mirror.rejoin(2)
    assert paths[2].read_bytes() == before  # no data is lost that someone may need


async def test_blocks_that_are_larger_than_the_mirrors(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Mirror([FileReplica(path, unit=512) for path in paths], 2) as mirror:
        await mirror.create(region=REGION)
    async with Mirror(on(paths), 2) as mirror:
        with pytest.raises(QuorumLost, match="it has blocks of 4096 bytes"):
            await mirror.open()


async def test_a_replica_of_a_log_that_is_too_small(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Log(on(paths), 2) as log:
        await log.create()
        await log.append(b"mine")
    paths[0].write_bytes(paths[0].read_bytes()[: 512 << 10])
    async with Log(on(paths), 2) as log:
        await log.recover()
        assert [record async for _, record in log.records()] == [b"mine"]
        assert "it has 524288 bytes" in log.replicas[0][2]


async def test_a_replica_that_becomes_read_only(tmp_path: Path) -> None:
    class Protected(Frozen):
        protected = False

        async def write(self, offset: int, data: bytes) -> None:
            if self.protected:
                raise OSError(30, "Read-only file system")
            await super().write(offset, data)

    replicas = [Protected(path) for path in files(tmp_path)]
    why: asyncio.Queue[str] = asyncio.Queue()
    async with Mirror(
        replicas, 2, retry=0.02, resync_rate=None, lost=lambda _, reason: why.put_nowait(reason)
    ) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        replicas[0].protected = True
        await mirror.write(0, PAGE)
        assert "Read-only file system" in await asyncio.wait_for(why.get(), 60)
        for _ in range(3):
            assert await mirror.read(0, 4096) == PAGE
        replicas[0].protected = False
        async with asyncio.timeout(60):
            await mirror.clean()


class Mortal(Memory):
    """Memory that fails after a number of writes."""

    left = 1 << 30

    async def write(self, offset: int, data: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            self.broken = True
        await super().write(offset, data)


@pytest.mark.parametrize("writes", range(1, 12))
async def test_a_replica_that_dies_while_it_is_resynchronised(writes: int) -> None:
    replicas = [Mortal(1 << 20) for _ in range(3)]
    async with Mirror(replicas, 2, retry=0.02, resync_rate=None) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        replicas[2].broken = True
        for i in range(4):
            await mirror.write(i * REGION, bytes([i + 1]) * REGION)
        assert mirror.replicas[2].state is not LegState.IN
        for _ in range(3):  # it dies at about the same step again
            replicas[2].left, replicas[2].broken = writes, False
            async with asyncio.timeout(60):
                while not (replicas[2].broken or mirror.state is MirrorState.CLEAN):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            for i in range(4):
                assert await mirror.read(i * REGION, 4096) == bytes([i + 1]) * 4096
        replicas[2].left, replicas[2].broken = 1 << 30, False
        async with asyncio.timeout(60):
            await mirror.clean()
    start = mirrorformat.START + 4096
    assert replicas[2].bytes[start:] == replicas[0].bytes[start:]


class Halfway(Memory):
    """It fails at the first write at a place or behind it, and notes the others."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.until = 1 << 30
        self.places: list[int] = []

    async def write(self, offset: int, data: bytes) -> None:
        if offset >= self.until:
            self.broken = True
        await super().write(offset, data)
        self.places.append(offset)


async def test_what_was_copied_is_not_copied_again_after_the_mirror_was_closed() -> None:
    last = Halfway(1 << 20)
    replicas = [Memory(1 << 20), Memory(1 << 20), last]
    first = mirrorformat.START + 4096
    async with Mirror(replicas, 2, resync_rate=None) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        last.broken = True
        for i in range(12):
            await mirror.write(i * REGION, bytes([i + 1]) * REGION)
    last.until, last.broken = first + 8 * REGION, False
    async with Mirror(replicas, 2, resync_rate=None) as mirror:
        await mirror.open()
        async with asyncio.timeout(60):
            while not last.broken:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    last.until, last.broken, last.places = 1 << 30, False, []
    async with Mirror(replicas, 2, resync_rate=None) as mirror:
        await mirror.open()
        async with asyncio.timeout(60):
            await mirror.clean()
    copied = {(place - first) // REGION for place in last.places if place >= first}
    assert set(range(8, 12)) <= copied
    assert not copied & {0, 1, 2, 3}
    assert last.bytes[first:] == replicas[0].bytes[first:]


async def test_a_replica_that_a_later_writer_has_claimed() -> None:
    replicas = [Memory(1 << 20) for _ in range(3)]
    first, second = Mirror(replicas, 2, retry=600), Mirror(replicas, 2)
    async with first, second:
        await first.create(region=REGION)
        await first.clean()
        replicas[1].broken = True
        await first.write(0, PAGE)
        assert first.replicas[1].state is LegState.OUT
        replicas[1].broken = False
        await second.open()
        with pytest.raises(Deposed, match="replica 1 has a later epoch"):
            await first.rejoin(1)
        assert first.state is MirrorState.DEPOSED
        with pytest.raises(Deposed):
            await first.write(0, bytes(4096))
        assert await second.read(0, 4096) == PAGE
