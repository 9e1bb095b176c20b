# SPDX-License-Identifier: BSD-3-Clause
"""A namespace as a stream of chunks: in order, with a limited read-ahead window."""

from __future__ import annotations

import asyncio
import hashlib
import random
from contextlib import aclosing

import pytest

from nvmf.initiator import Namespace, NvmeError, connect
from nvmf.initiator.sync import connect as connect_sync
from nvmf.target.sync import serve
from support.clientlab import OPTIONS, RAM, serving

HANG = 60
DATA = random.Random(3).randbytes(8 << 20)


@pytest.mark.parametrize(
    ("offset", "n", "chunk", "window"),
    [
        (0, None, 1 << 20, 4),
        (0, None, 3 << 20, 1),
        (512, 1 << 20, 4096, 16),
        (1, 100_001, 7919, 3),
        (8 << 20, None, 4096, 4),
        (100, 0, 4096, 4),
    ],
)
async def test_in_order(offset: int, n: int | None, chunk: int, window: int) -> None:
    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        await disk.pwrite(DATA, 0)
        found = [one async for one in disk.stream(offset, n, chunk=chunk, window=window)]
        expected = DATA[offset:] if n is None else DATA[offset : offset + n]
        assert b"".join(found) == expected
        assert all(len(one) == chunk for one in found[:-1])


async def test_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow caller has at most window chunks waiting, and after it leaves none is in progress."""
    under_way: list[int] = []
    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        read = Namespace.pread

        async def counted(self: Namespace, n: int, offset: int, *, fua: bool = False) -> bytes:
            under_way.append(offset)
            return await read(self, n, offset, fua=fua)

        monkeypatch.setattr(Namespace, "pread", counted)
        async with aclosing(disk.stream(chunk=4096, window=3)) as chunks:
            await anext(chunks)
            await asyncio.sleep(0.05)
            assert under_way == [0, 4096, 8192]
            await anext(chunks)
            await asyncio.sleep(0)
            assert under_way == [0, 4096, 8192, 12288]
        async with asyncio.timeout(HANG):  # cancelled commands end by themselves
            while controller.session.queues[0].outstanding:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def test_wrong_ranges() -> None:
    async with serving(RAM) as (_, where), connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        with pytest.raises(NvmeError, match="LBA Out of Range"):
            await anext(disk.stream(0, (8 << 20) + 1))
        with pytest.raises(ValueError, match="invalid range:"):
            await anext(disk.stream(-1, 5))
        with pytest.raises(ValueError, match="at least 1"):
            await anext(disk.stream(window=0))


def test_without_asyncio() -> None:
    with serve(ram="8MiB") as target, connect_sync(target.url) as controller:
        disk = controller.namespace(1)
        disk.pwrite(DATA, 0)
        digest = hashlib.sha256()
        for chunk in disk.stream(chunk=1 << 19):
            digest.update(chunk)
        assert digest.digest() == hashlib.sha256(DATA).digest()
        for chunk in disk.stream(window=2):
            assert len(chunk) == 1 << 20
            break
        assert disk.read(0, 1) == DATA[:512]
