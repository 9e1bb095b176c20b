# SPDX-License-Identifier: BSD-3-Clause
"""Replicas report a write when it is persistent: the caches below them lose what was not flushed.

The proof of the cores (test_replication_proof) relies on it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import nvmf.target
from nvmf.initiator import connect
from nvmf.pmem.block import BlockMethod
from nvmf.replication import FileReplica, Log, Mirror, NamespaceReplica
from support.pystores import Cached

UNIT = 512


class Volatile(Cached):
    """A store with a cache: its media have what was there at the last flush."""

    def __init__(self) -> None:
        super().__init__()
        self.media = bytes(self.size)

    async def flush(self) -> None:
        found = bytes(self.bytes)
        await super().flush()
        await asyncio.sleep(0)
        self.media = found


@asynccontextmanager
async def stores(count: int) -> AsyncIterator[tuple[list[Volatile], list[str]]]:
    """Yield stores, and the URLs of their targets."""
    there = [Volatile() for _ in range(count)]
    async with AsyncExitStack() as stack:
        served = [await stack.enter_async_context(nvmf.target.serve(store=one)) for one in there]
        yield there, [target.url for target in served]


def pattern(number: int, length: int = UNIT) -> bytes:
    return number.to_bytes(4, "little") * (length // 4)


async def test_a_namespace() -> None:
    async with stores(1) as ([store], [url]):
        replica = NamespaceReplica(url)
        await replica.fence()
        for number, blocks in enumerate((1, 8, 1024), 1):  # the last one takes several commands
            data = pattern(number, blocks * UNIT)
            await replica.write(UNIT, data)
            assert store.media[UNIT : UNIT + len(data)] == data
        many = b"".join(pattern(10 + i) for i in range(8))
        places = [4096 * i for i in range(8)]
        await replica.write_many(places, many)
        for i, at in enumerate(places):
            assert store.media[at : at + UNIT] == many[i * UNIT : (i + 1) * UNIT]
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        assert replica.begin_write(2 * UNIT, pattern(30), ended.set_result)
        assert await ended
        assert store.media[2 * UNIT : 3 * UNIT] == pattern(30)
        store.bytes[:UNIT] = pattern(40)  # as of a writer that is gone
        await replica.flush()
        assert store.media[:UNIT] == pattern(40)
        await replica.close()


async def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "replica"
    path.write_bytes(bytes(1 << 20))
    media = bytearray(1 << 20)
    syncs = []

    def noted(name: str) -> None:
        real = getattr(os, name)

        def sync(fd: int) -> None:
            found = os.pread(fd, len(media), 0)
            real(fd)
            media[:] = found
            syncs.append(name)

        monkeypatch.setattr(os, name, sync)

    noted("fdatasync")
    noted("fsync")
    replica = FileReplica(path)
    await replica.fence()

    async def write(number: int) -> None:
        data = pattern(number, 4096)
        await replica.write(number * 4096, data)
        assert media[number * 4096 : (number + 1) * 4096] == data

    await asyncio.gather(*map(write, range(1, 50)))
    assert len(syncs) < 49, "writes share syncs"
    with path.open("r+b") as other:
        other.write(pattern(99, 4096))
    await replica.flush()
    assert media[:4096] == pattern(99, 4096)
    await replica.close()


async def test_a_mirror() -> None:
    """Its writes go to all replicas with one call of the engine."""
    async with stores(3) as (there, urls):
        replicas = [NamespaceReplica(url) for url in urls]
        async with Mirror(replicas, 2, resync_rate=None) as mirror:
            await mirror.create()
            await mirror.clean()
            start = mirror.form.start
            # One command, several, and no spread of the engine.
            for number, length in enumerate((UNIT, 16 * UNIT, 1 << 20), 1):
                data = pattern(number, length)
                await mirror.write(0, data)
                found = [one.media[start : start + length] == data for one in there]
                assert sum(found) >= 2, f"{length} bytes are on {found}"
            await mirror.write_many([0, 4096], pattern(7) + pattern(8))
            for at, number in ((0, 7), (4096, 8)):
                found = [one.media[start + at :][:UNIT] == pattern(number) for one in there]
                assert sum(found) >= 2


async def test_a_log() -> None:
    async with stores(3) as (there, urls), Log([*map(NamespaceReplica, urls)], 2) as log:
        await log.create()
        for number in range(5):
            record = b"record %d" % number
            await log.append(record)
            assert sum(record in one.media for one in there) >= 2


@pytest.mark.parametrize("method", ["nvme-fua", "nvme-write-flush"])
async def test_methods_of_persistence_by_commands(method: str) -> None:
    async with stores(1) as ([store], [url]), connect(url) as controller:
        way = BlockMethod(controller.namespace(1), method)  # type: ignore[arg-type]
        for number, blocks in enumerate((1, 8, 1024), 1):
            data = pattern(number, blocks * UNIT)
            await way.write(0, data)
            assert store.media[: len(data)] == data
