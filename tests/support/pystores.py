# SPDX-License-Identifier: BSD-3-Clause
"""Stores written in Python, for tests: some keep data, some hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nvmf.initiator import Controller, NvmeError, connect
from nvmf.spec.status import Status
from nvmf.target import Store, Target, serve

SIZE = 4 << 20
MANY = 200


class Memory(Store):
    """A store that keeps its data in memory, and counts its calls."""

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self.bytes = bytearray(size)
        self.calls: list[str] = []
        self.running = self.most = 0
        self.opened = self.closed = 0
        self.hold = False
        """While set, reads do not return."""

    async def open(self) -> None:
        self.opened += 1

    async def read(self, offset: int, length: int) -> memoryview:
        self.calls.append("read")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            while self.hold:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            await asyncio.sleep(0)
            return memoryview(self.bytes)[offset : offset + length]
        finally:
            self.running -= 1

    async def write(self, offset: int, data: bytes) -> None:
        self.calls.append("write")
        self.bytes[offset : offset + len(data)] = data

    async def close(self) -> None:
        self.closed += 1


class Cached(Memory):
    """A store with a volatile cache, and deallocation."""

    async def flush(self) -> None:
        self.calls.append("flush")

    async def deallocate(self, offset: int, length: int) -> None:
        self.calls.append("deallocate")
        self.bytes[offset : offset + length] = bytes(length)


class ReadOnly(Store):
    size = 1 << 20
    block_size = 4096

    async def read(self, offset: int, length: int) -> bytes:
        return (offset // 4096).to_bytes(4, "little") * (length // 4)


@asynccontextmanager
async def served(store: Store) -> AsyncIterator[tuple[Target, Controller]]:
    async with serve(store=store) as target, connect(target.url, device="iwarp") as controller:
        yield target, controller


async def status_of(work: Any) -> Status:
    with pytest.raises(NvmeError) as caught:
        await work
    return Status(caught.value.status & 0x7FF)


class Slow(Memory):
    """A store whose reads never return at block 0, ignore cancellation at block 1, and spin at
    block 2.
    """

    time_limit = 0.4

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = 0
        self.release = self.tried = False

    async def read(self, offset: int, length: int) -> memoryview:
        self.tried = True
        if offset == 0:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        while offset == 512 and not self.release:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled += 1
        while offset == 1024 and not self.release:
            time.sleep(0.001)  # noqa: ASYNC251
        return await super().read(offset, length)


TEXT = """
[[port]]
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "nqn.2026-11.io.example:python"
allow_any_host = true
[[subsystem.namespace]]
store = "python"
python = "{name}"
options = {{ size = 1048576 }}
"""
