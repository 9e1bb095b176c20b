# SPDX-License-Identifier: BSD-3-Clause
"""Replicas for tests of replication: files, targets, and replicas that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import nvmf.target
from nvmf.replication import FileReplica, Replica, ReplicaError
from nvmf.replication.mirrorformat import SLOT, Header


def files(tmp_path: Path, count: int = 3, size: int = 1 << 20) -> list[Path]:
    paths = [tmp_path / f"replica{i}" for i in range(count)]
    for path in paths:
        path.write_bytes(bytes(size))
    return paths


def claim(path: Path) -> None:
    """Make a leg that of a later writer."""
    content = path.read_bytes()[: 2 * SLOT]
    header = Header.best([content[:SLOT], content[SLOT:]])
    assert header is not None
    later = replace(header, epoch=header.epoch + 1000, seq=header.seq + 1000)
    with path.open("r+b") as file:
        file.write(later.encode())


def on(paths: list[Path]) -> list[Replica]:
    return [FileReplica(path) for path in paths]


@asynccontextmanager
async def targets(count: int = 3) -> AsyncIterator[list[str]]:
    async with AsyncExitStack() as stack:
        yield [
            (await stack.enter_async_context(nvmf.target.serve(ram="4MiB"))).url
            for _ in range(count)
        ]


class Frozen(FileReplica):
    """A file that can stop answering, fail, fill up, and return wrong data."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.frozen = asyncio.Event()
        self.frozen.set()
        self.broken = self.short = self.full = False

    async def fence(self) -> None:
        self._check()
        await super().fence()

    def _check(self) -> None:
        if self.broken:
            raise ReplicaError("the cable is out")

    async def read(self, offset: int, length: int) -> bytes:
        self._check()
        await self.frozen.wait()
        return (await super().read(offset, length))[: length - 1 if self.short else length]

    async def write(self, offset: int, data: bytes) -> None:
        self._check()
        if self.full:
            raise OSError(28, "No space left on device")
        await self.frozen.wait()
        await super().write(offset, data)


class Memory(Frozen):
    """A replica in memory, whose speed does not depend on the disk."""

    def __init__(self, size: int) -> None:
        super().__init__(Path("memory"))
        self.bytes = bytearray(size)
        self.size = size

    async def fence(self) -> None:
        self._check()

    async def read(self, offset: int, length: int) -> bytes:
        self._check()
        await self.frozen.wait()
        await asyncio.sleep(0)
        return bytes(self.bytes[offset : offset + length])

    async def write(self, offset: int, data: bytes) -> None:
        self._check()
        await asyncio.sleep(0)
        await self.frozen.wait()
        self.bytes[offset : offset + len(data)] = data

    async def flush(self) -> None:
        self._check()
