# SPDX-License-Identifier: BSD-3-Clause
"""Stores written in Python: their behaviour as hosts see it, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from nvmf.errors import Error
from nvmf.initiator import NvmeError
from nvmf.spec.status import Status
from nvmf.target import serve
from support.pystores import MANY, SIZE, Cached, Memory, ReadOnly, served, status_of


async def test_bytes_go_through() -> None:
    store = Memory()
    async with served(store) as (_, controller):
        disk = controller.namespaces[0]
        assert (disk.blocks, disk.block_size) == (SIZE // 512, 512)
        data = bytes(range(256)) * 2 * 1000
        await disk.write(16, data)
        assert bytes(await disk.read(16, 1000)) == data
        assert store.bytes[16 * 512 : 16 * 512 + len(data)] == data
        await disk.flush()
        assert "flush" not in store.calls
    assert (store.opened, store.closed) == (1, 1)


async def test_identify_says_what_the_store_promises() -> None:
    async with served(Cached()) as (_, controller):
        assert controller.identify.vwc & 1
        assert controller.namespaces[0].info.dlfeat & 7 == 1
    async with served(Memory()) as (_, controller):
        assert not controller.identify.vwc & 1
        assert not controller.namespaces[0].info.dlfeat & 7


async def test_optional_methods() -> None:
    store = Cached()
    async with served(store) as (_, controller):
        disk = controller.namespaces[0]
        await disk.write(0, b"\1" * 4096)
        await disk.flush()
        assert store.calls[-1] == "flush"
        await disk.write(0, b"\2" * 512, fua=True)
        assert store.calls[-2:] == ["write", "flush"]
        await disk.deallocate([(0, 1)])
        assert store.calls[-1] == "deallocate"
        await disk.write_zeroes(1, 2)
        assert store.calls[-1] == "write"
        assert bytes(await disk.read(0, 4)) == bytes(3 * 512) + b"\1" * 512


async def test_data_is_stable_before_its_mark_is_removed() -> None:
    """After a power failure, a block of Write Uncorrectable has its new data, or its mark."""
    store = Cached()
    async with served(store) as (_, controller):
        disk = controller.namespaces[0]
        await disk.write_uncorrectable(0, 8)
        await disk.write(0, b"\1" * 512)
        assert store.calls[-2:] == ["write", "flush"]
        await disk.write_zeroes(1, 2)
        assert store.calls[-2:] == ["write", "flush"]
        await disk.write(0, b"\2" * 512)
        assert store.calls[-1] == "write"
        await disk.deallocate([(16, 1), (3, 2), (17, 1)])
        assert store.calls[-4:] == [*["deallocate"] * 3, "flush"]
        await disk.deallocate([(3, 1), (17, 1)])
        assert store.calls[-2:] == ["deallocate"] * 2


async def test_one_that_only_reads() -> None:
    async with served(ReadOnly()) as (_, controller):
        disk = controller.namespaces[0]
        assert (disk.blocks, disk.block_size) == (256, 4096)
        assert bytes(await disk.read(7, 1)) == (7).to_bytes(4, "little") * 1024
        refused = await status_of(disk.write(0, bytes(4096)))
        assert refused is Status.NAMESPACE_WRITE_PROTECTED


async def test_calls_at_a_time_are_limited() -> None:
    class Few(Memory):
        max_calls = 3

    store = Few()
    async with served(store) as (_, controller):
        disk = controller.namespaces[0]
        await asyncio.gather(*(disk.read(i, 1) for i in range(MANY)))
    assert 1 < store.most <= 3
    assert len(store.calls) == MANY


@pytest.mark.parametrize(
    ("error", "reads", "writes"),
    [
        (OSError(errno.ENOSPC, "full"), Status.CAPACITY_EXCEEDED, Status.CAPACITY_EXCEEDED),
        (OSError(errno.EIO, "worn"), Status.UNRECOVERED_READ_ERROR, Status.WRITE_FAULT),
        (PermissionError("no"), Status.ACCESS_DENIED, Status.NAMESPACE_WRITE_PROTECTED),
        (ValueError("a bug"), Status.INTERNAL_ERROR, Status.INTERNAL_ERROR),
        (SystemExit(3), Status.INTERNAL_ERROR, Status.INTERNAL_ERROR),
    ],
)
async def test_exceptions_become_statuses(
    error: BaseException, reads: Status, writes: Status, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Memory):
        async def read(self, offset: int, length: int) -> memoryview:
            if offset < 512:
                raise error
            return await super().read(offset, length)

        async def write(self, offset: int, data: bytes) -> None:
            raise error

    caplog.set_level(logging.ERROR, "nvmf.target")
    async with served(Failing()) as (_, controller):
        disk = controller.namespaces[0]
        for _ in range(3):
            assert await status_of(disk.read(0, 1)) is reads
        assert await status_of(disk.write(0, bytes(512))) is writes
        assert len(await disk.read(1, 1)) == 512
    said = [line.getMessage() for line in caplog.records if "Failing:" in line.getMessage()]
    assert [line.split(": ")[1].split()[0] for line in said] == ["read", "write"], said
    assert type(error).__name__ in said[0]


class Untold(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [OSError("no block", 7), OSError([5], "a list"), OSError(1 << 40, "too large"), Untold(), None],
    ids=["text", "list", "large", "untold", "cancelled"],
)
async def test_no_exception_keeps_a_call(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A call that has failed is one of max_calls no longer, whatever the exception was."""

    class Failing(Memory):
        max_calls = 2
        time_limit = 60.0

        async def read(self, offset: int, length: int) -> memoryview:
            if offset < 512 and error is not None:
                raise error
            if offset < 512:  # cancel calls that have not begun
                for task in asyncio.all_tasks():
                    if "_answer" in repr(task) and task is not asyncio.current_task():
                        task.cancel()
            return await super().read(offset, length)

    caplog.set_level(logging.ERROR, "nvmf.target")
    async with served(Failing()) as (_, controller), asyncio.timeout(20):
        disk = controller.namespaces[0]
        for _ in range(4):
            both = asyncio.gather(disk.read(0, 1), disk.read(0, 1), return_exceptions=True)
            found = [one for one in await both if isinstance(one, NvmeError)]
            assert all(Status(one.status & 0x7FF) is Status.INTERNAL_ERROR for one in found)
            assert len(found) == 2 or error is None
        assert len(await disk.read(1, 1)) == 512
    assert "cannot answer" not in caplog.text
    assert error is None or type(error).__name__ in caplog.text


class Odd(BaseException):
    """No Exception."""


@pytest.mark.parametrize("error", [SystemExit, Odd, asyncio.CancelledError])
async def test_an_exception_of_a_resize_ends_neither_the_store_nor_the_target(
    error: type[BaseException],
) -> None:
    class Exits(Memory):
        bad = False

        @property
        def size(self) -> int:
            if self.bad:
                raise error(3)
            return SIZE

        @size.setter
        def size(self, size: int) -> None: ...

    store = Exits()
    async with served(store) as (target, controller):
        store.bad = True
        nqn = target.config.subsystems[0].nqn
        with pytest.raises(Error, match=f"{error.__name__}: "):
            await target._server.apply(target.config, [(nqn, 1)])
        assert len(await controller.namespaces[0].read(0, 1)) == 512


async def test_an_exception_without_a_text_of_the_first_call() -> None:
    class Fails(Memory):
        async def open(self) -> None:
            raise Untold

    with pytest.raises(Error, match="Untold, whose text cannot be had"):
        async with asyncio.timeout(10):
            await serve(store=Fails())


@pytest.mark.parametrize("given", [b"", bytes(511), bytes(513), None, "text"])
async def test_a_wrong_result(given: Any) -> None:
    class Wrong(Memory):
        async def read(self, offset: int, length: int) -> memoryview:
            return given  # type: ignore[no-any-return]

    async with served(Wrong()) as (_, controller):
        assert await status_of(controller.namespaces[0].read(0, 1)) is Status.INTERNAL_ERROR


async def test_a_method_that_is_not_async(caplog: pytest.LogCaptureFixture) -> None:
    class Plain(Memory):
        def read(self, offset: int, length: int) -> bytes:  # type: ignore[override]
            return bytes(length)

    caplog.set_level(logging.ERROR, "nvmf.target")
    async with served(Plain()) as (_, controller):
        assert await status_of(controller.namespaces[0].read(0, 1)) is Status.INTERNAL_ERROR
    assert "Plain.read() must be async: it returned bytes" in caplog.text


async def test_a_result_that_is_not_contiguous() -> None:
    class Strided(Memory):
        async def read(self, offset: int, length: int) -> memoryview:
            return memoryview(b"ab" * length)[::2]

    async with served(Strided()) as (_, controller):
        assert bytes(await controller.namespaces[0].read(0, 1)) == b"a" * 512
