# SPDX-License-Identifier: BSD-3-Clause
"""Mirror on files and on namespaces of real targets, with replicas that fail."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import nvmf.target
from nvmf.initiator import connect
from nvmf.replication import (
    Deposed,
    FileReplica,
    Mirror,
    MirrorState,
    NamespaceReplica,
    QuorumLost,
    Replica,
    mirrorformat,
)
from nvmf.replication.history import Access, violation
from nvmf.replication.store import MirrorStore
from support.replicas import Frozen, Memory, files, on, targets


async def test_mirror_on_files(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Mirror(on(paths), 2) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
        await mirror.write(4096, b"\1" * 8192)
        assert await mirror.read(0, 16384) == bytes(4096) + b"\1" * 8192 + bytes(4096)
        with pytest.raises(ValueError, match="not blocks"):
            await mirror.read(0, 100)
        with pytest.raises(ValueError, match="not in"):
            await mirror.write(mirror.size, bytes(4096))
    for lost in range(3):
        kept = [path if i != lost else tmp_path / "gone" for i, path in enumerate(paths)]
        async with Mirror(on(kept), 2) as mirror:
            await mirror.open()
            assert mirror.state is MirrorState.DEGRADED
            assert (await mirror.read(4096, 4096)) == b"\1" * 4096


@pytest.mark.parametrize("fault", ["broken", "full", "short"])
async def test_mirror_with_a_replica_that_fails(tmp_path: Path, fault: str) -> None:
    paths = files(tmp_path)
    replicas = [Frozen(path) for path in paths]
    async with Mirror(replicas, 2, retry=0.02, resync_rate=None) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
        setattr(replicas[1], fault, True)
        for i in range(8):
            await mirror.write(i * 65536, bytes([i + 1]) * 4096)
            assert await mirror.read(i * 65536, 4096) == bytes([i + 1]) * 4096
        assert mirror.state is MirrorState.DEGRADED
        setattr(replicas[1], fault, False)
        await mirror.clean()
    assert len({path.read_bytes()[mirrorformat.START + 4096 :] for path in paths}) == 1


async def test_mirror_blocked_until_a_replica_is_back(tmp_path: Path) -> None:
    replicas = [Frozen(path) for path in files(tmp_path, 2)]
    async with Mirror(replicas, 2, retry=0.02) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
        replicas[1].broken = True
        writing = asyncio.create_task(mirror.write(0, b"\7" * 4096))
        while mirror.state is not MirrorState.BLOCKED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not writing.done()
        replicas[1].broken = False
        await writing
        assert await mirror.read(0, 4096) == b"\7" * 4096


async def test_two_writers_of_a_mirror() -> None:
    async with targets() as urls:
        first = Mirror([NamespaceReplica(url) for url in urls], 2)
        second = Mirror([NamespaceReplica(url) for url in urls], 2)
        async with first, second:
            await first.create()
            await first.write(0, b"\1" * 512)
            await second.open()
            with pytest.raises(Deposed, match="different writer"):
                await first.write(0, b"\2" * 512)
            with pytest.raises(Deposed, match="different writer"):
                await first.read(0, 512)
            assert first.state is MirrorState.DEPOSED
            assert await second.read(0, 512) == b"\1" * 512


async def test_mirror_with_a_damaged_map(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Mirror(on(paths), 2) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
        await mirror.write(0, b"\1" * 4096)

    def spoil(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[mirrorformat.START + 100] ^= 1
        path.write_bytes(data)

    spoil(paths[0])
    async with Mirror(on(paths), 2, retry=0.02, resync_rate=None) as mirror:
        await mirror.open()
        assert await mirror.read(0, 4096) == b"\1" * 4096
        await mirror.clean()  # it was taken in again, and copied as a whole
    spoil(paths[0])
    spoil(paths[1])
    async with Mirror(on(paths), 2) as mirror:
        with pytest.raises(QuorumLost, match="page 0 of its dirty map"):
            await mirror.open()


async def test_a_replica_that_was_set_back_is_copied_as_a_whole(tmp_path: Path) -> None:
    paths = files(tmp_path)
    async with Mirror(on(paths), 2) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
    old = paths[1].read_bytes()
    async with Mirror(on(paths), 2) as mirror:
        await mirror.open()
        await mirror.write(0, b"\1" * 4096)
    paths[1].write_bytes(old)
    async with Mirror(on(paths), 2, resync_rate=None) as mirror:
        await mirror.open()
        for _ in range(10):
            assert await mirror.read(0, 4096) == b"\1" * 4096
        await mirror.clean()
    start = mirrorformat.START + 4096
    assert paths[1].read_bytes()[start:] == paths[0].read_bytes()[start:]


async def test_a_mirror_as_the_store_of_a_target(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(bytes(4 << 20))
    async with targets(2) as urls:
        legs: list[Replica] = [FileReplica(local, unit=512), *map(NamespaceReplica, urls)]
        async with Mirror(legs, 2, resync_rate=None) as mirror:
            await mirror.create()
            await mirror.clean()
        store = MirrorStore([str(local), *urls], 2, unit=512)
        async with nvmf.target.serve(store=store) as target, connect(target.url) as controller:
            disk = controller.namespace(1)
            await disk.write(7, b"\5" * 2048)
            assert await disk.read(7, 4) == b"\5" * 2048
        async with Mirror([FileReplica(tmp_path / "gone"), *legs[1:]], 2) as mirror:
            await mirror.open()
            assert await mirror.read(7 * 512, 2048) == b"\5" * 2048


async def test_histories_are_linearizable() -> None:
    """Few blocks are written and read while replicas are cut and frozen."""
    rng = random.Random(5)
    replicas = [Memory(1 << 20) for _ in range(3)]
    histories: list[list[Access]] = [[] for _ in range(4)]
    loop = asyncio.get_running_loop()
    values = iter(range(1, 1 << 30))
    ended = False

    async def worker(mirror: Mirror) -> None:
        while not ended:
            block = rng.randrange(4)
            start = loop.time()
            if rng.random() < 0.5:
                value = next(values)
                await mirror.write(block * 4096, value.to_bytes(8, "little") * 512)
                histories[block].append(Access(value, start, loop.time(), True))
            else:
                data = await mirror.read(block * 4096, 4096)
                assert data == data[:8] * 512
                seen = int.from_bytes(data[:8], "little") or None
                histories[block].append(Access(seen, start, loop.time(), False))

    async with Mirror(replicas, 2, timeout=0.2, patience=0.01, retry=0.03) as mirror:
        await mirror.create(region=8192)
        workers = [asyncio.create_task(worker(mirror)) for _ in range(6)]
        for i in range(12):
            replica = replicas[i % 3]
            replica.broken = i % 2 == 0
            if not replica.broken:
                replica.frozen.clear()
            await asyncio.sleep(0.1)
            replica.broken = False
            replica.frozen.set()
            await asyncio.sleep(0.1)
        ended = True
        await asyncio.gather(*workers)
        await mirror.clean()
    for history in histories:
        assert len(history) > 20
        assert violation(history) is None
