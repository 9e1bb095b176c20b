# SPDX-License-Identifier: BSD-3-Clause
"""Many Reads and Writes in one call: the same data, errors and recovery as with single commands."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from nvmf.initiator import (
    ConnectionLost,
    Controller,
    NvmeError,
    State,
    connect,
    connect_multipath,
)
from nvmf.spec.status import Status
from support.clientlab import NQN, OPTIONS, RAM, RAM_4K, free_port, serving, url
from support.relay import Relay, relayed

HANG = 60
COUNT = 3000
"""Number of commands, many times the size of a queue."""


@pytest_asyncio.fixture
async def one() -> AsyncIterator[Controller]:
    async with serving(RAM, RAM_4K) as (_, where), connect(where, **OPTIONS) as controller:
        yield controller


def scattered(blocks: int, each: int, count: int = COUNT) -> array[int]:
    """Return LBAs of ranges that do not overlap, in random order."""
    places = random.Random(7).sample(range(blocks // each), count)
    return array("Q", (place * each for place in places))


def content(lbas: array[int], length: int) -> bytearray:
    """Data that identifies its block."""
    return bytearray(b"".join(lba.to_bytes(8, "little") * (length // 8) for lba in lbas))


@pytest.mark.parametrize("form", ["array", "list", "memoryview", "generator"])
async def test_written_and_read(one: Controller, form: str) -> None:
    disk = one.namespace(1)
    lbas = scattered(disk.blocks, 2)
    given: Any = {
        "array": lambda: lbas,
        "list": lambda: list(lbas),
        "memoryview": lambda: memoryview(lbas),
        "generator": lambda: (lba for lba in lbas),
    }[form]
    data = content(lbas, 1024)
    assert await disk.write_many(given(), bytes(data), blocks=2) == len(data)
    for place in range(0, COUNT, 500):
        assert await disk.read(lbas[place], 2) == data[place * 1024 : place * 1024 + 1024]
    found = bytearray(len(data))
    assert await disk.read_many(given(), found, blocks=2) == len(data)
    assert found == data


async def test_registered_memory(one: Controller) -> None:
    """Registered memory is used in place, also from an offset on."""
    disk = one.namespace(2)
    lbas = scattered(disk.blocks, 1, 500)
    data = content(lbas, 4096)
    with one.alloc(len(data) + 4096) as memory, memoryview(memory) as view:
        view[4096:] = data
        await disk.write_many(lbas, view[4096:])
        view[:] = bytes(len(view))
        await disk.read_many(lbas, view[4096:])
        assert view[4096:] == data
        assert view[:4096] == bytes(4096)


async def test_others_have_their_turn(one: Controller) -> None:
    """Single commands, fused pairs and other batches run at the same time as a batch."""
    disk, other = one.namespace(1), one.namespace(2)
    half = disk.blocks // 2
    lbas = scattered(half, 1)
    data = content(lbas, 512)
    beside = scattered(other.blocks, 1, 1000)
    more = content(beside, 4096)

    async def singles() -> None:
        for lba in range(half, half + 200):
            block = bytes([lba & 0xFF]) * 512
            await disk.write(lba, block)
            await disk.compare_and_write(lba, block, bytes(512))
            assert await disk.read(lba, 1) == bytes(512)

    async with asyncio.timeout(HANG):
        for _ in range(3):
            await asyncio.gather(
                disk.write_many(lbas, data), other.write_many(beside, more), singles()
            )
    found, again = bytearray(len(data)), bytearray(len(more))
    await asyncio.gather(disk.read_many(lbas, found), other.read_many(beside, again))
    assert found == data
    assert again == more
    assert one.session.queues[0].outstanding == 0
    assert one.session.queues[0]._free == one.session.queues[0]._host.room


async def test_one_that_fails(one: Controller) -> None:
    disk = one.namespace(1)
    lbas = scattered(disk.blocks, 1)
    await disk.write_uncorrectable(lbas[1234], 1)
    with pytest.raises(NvmeError) as caught:
        await disk.read_many(lbas, bytearray(COUNT * 512))
    assert caught.value.status == Status.UNRECOVERED_READ_ERROR
    assert str(lbas[1234]) in str(caught.value)
    await disk.write_many(lbas, bytearray(COUNT * 512))
    assert await disk.read_many(lbas, bytearray(COUNT * 512)) == COUNT * 512


@pytest.mark.parametrize(
    ("lbas", "length", "options", "error", "said"),
    [
        ([0, 1], 512, {}, ValueError, "2 commands of 1 blocks of 512 bytes move 1024 bytes"),
        ([0, -1], 1024, {}, ValueError, "an LBA is a number from 0"),
        ([0, 1 << 64], 1024, {}, ValueError, "an LBA is a number from 0"),
        ([0, "1"], 1024, {}, TypeError, "integer"),
        ([0, 16384], 1024, {}, NvmeError, "LBA Out of Range"),
        ([16383], 1024, {"blocks": 2}, NvmeError, "LBA Out of Range"),
        ([0], 0, {"blocks": 0}, ValueError, "one command moves 1 to "),
        ([0], 2 << 20, {"blocks": 4096}, ValueError, "one command moves 1 to "),
    ],
)
async def test_wrong_arguments(
    one: Controller,
    lbas: list[Any],
    length: int,
    options: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    disk = one.namespace(1)
    with pytest.raises(error, match=said):
        await disk.read_many(lbas, bytearray(length), **options)
    with pytest.raises(error, match=said):
        await disk.write_many(lbas, bytearray(length), **options)


async def test_nothing_to_do(one: Controller) -> None:
    disk = one.namespace(1)
    assert await disk.read_many([], bytearray()) == 0
    assert await disk.write_many([], b"") == 0
    with pytest.raises(ValueError, match="writable"):
        await disk.read_many([0], bytes(512))


async def test_cancelled(one: Controller) -> None:
    """No data is transferred afterwards, and the whole queue can be used again."""
    disk = one.namespace(1)
    lbas = scattered(disk.blocks, 1)
    with one.alloc(COUNT * 512) as memory:
        work = asyncio.create_task(disk.write_many(lbas, memory))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    async with asyncio.timeout(HANG):
        await disk.write_many(lbas, content(lbas, 512))
    queue = one.session.queues[0]
    assert (queue.outstanding, queue._free) == (0, queue._host.room)


async def lost(controller: Controller, times: int) -> None:
    """Wait until the connection is lost, after a number of reconnections."""
    async with asyncio.timeout(HANG):
        while controller.state is State.LIVE or controller.reconnects != times:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_over_lost_connections() -> None:
    """Unanswered commands run again, and none is left out."""
    async with serving(RAM) as (server, _):
        relay = Relay(free_port(), server.ports[0].address[1])
        await relay.open()
        options = OPTIONS | {"reconnect_delay": 0.01, "ctrl_loss_tmo": HANG}
        async with connect(url(relay.port, NQN), **options) as controller:
            disk = controller.namespace(1)
            lbas = scattered(disk.blocks, 1)
            data = content(lbas, 512)
            for write in (True, False):
                found = bytearray(len(data))
                before = controller.reconnects
                relay.cut_after(60_000)  # much less than all the commands need
                action = disk.write_many(lbas, data) if write else disk.read_many(lbas, found)
                work = asyncio.create_task(action)
                await lost(controller, before)
                assert not work.done()
                await relay.open()
                relay.cut_after(100_000)
                await lost(controller, before + 1)
                assert not work.done()
                await relay.open()
                async with asyncio.timeout(HANG):
                    await work
                assert controller.reconnects == before + 2
            assert found == data
        await relay.cut()


async def test_a_target_that_stays_away() -> None:
    async with serving(RAM) as (server, _):
        relay = Relay(free_port(), server.ports[0].address[1])
        await relay.open()
        options = OPTIONS | {"reconnect_delay": 0.01, "ctrl_loss_tmo": 0.1}
        async with connect(url(relay.port, NQN), **options) as controller:
            disk = controller.namespace(1)
            relay.stall()
            work = asyncio.create_task(disk.write_many(range(1000), bytearray(512000)))
            await asyncio.sleep(0.05)
            await relay.cut()
            with pytest.raises(ConnectionLost):
                async with asyncio.timeout(HANG):
                    await work


async def test_no_answer_in_time() -> None:
    """The time limit of a batch starts again with each answer."""
    async with serving(RAM) as (server, _):
        relay = Relay(free_port(), server.ports[0].address[1])
        await relay.open()
        options = OPTIONS | {"io_timeout": 0.2, "reconnect_delay": 0.01, "ctrl_loss_tmo": 0.1}
        async with connect(url(relay.port, NQN), **options) as controller:
            disk = controller.namespace(1)
            relay.stall()
            work = asyncio.create_task(disk.write_many(range(1000), bytearray(512000)))
            async with asyncio.timeout(HANG):
                while controller.state is State.LIVE:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await relay.cut()
                with pytest.raises(ConnectionLost):
                    await work


async def test_by_several_paths() -> None:
    """Callers do not see the loss of a path."""
    async with serving(RAM) as (server, _), relayed(server.ports[0].address[1]) as relays:
        urls = [url(relay.port, NQN) for relay in relays]
        options = OPTIONS | {"reconnect_delay": 0.01, "ctrl_loss_tmo": HANG}
        async with connect_multipath(urls, **options) as subsystem:
            disk = subsystem.namespace(1)
            lbas = scattered(disk.blocks, 1)
            data = content(lbas, 512)
            work = asyncio.create_task(disk.write_many(lbas, data))
            await asyncio.sleep(0.01)
            await relays[0].cut()
            async with asyncio.timeout(HANG):
                await work
            found = bytearray(len(data))
            assert await disk.read_many(lbas, found) == len(data)
            assert found == data
            with pytest.raises(NvmeError, match="LBA Out of Range"):
                await disk.read_many([disk.blocks], bytearray(512))
