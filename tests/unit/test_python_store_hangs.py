# SPDX-License-Identifier: BSD-3-Clause
"""Stores written in Python that do not return, and various ends while calls are in progress."""

from __future__ import annotations

import asyncio

import pytest

from nvmf.initiator import Controller, NvmeError, connect
from nvmf.spec.status import Status
from nvmf.target import register_store, serve
from nvmf.target.io import storethread
from nvmf.target.io.pystore import unregister_store
from support.pystores import MANY, TEXT, Cached, Memory, Slow, status_of
from support.serverlab import until


@pytest.mark.parametrize("block", [0, 1, 2])
async def test_a_call_that_never_returns(block: int) -> None:
    store = Slow()
    async with (
        serve(store=[store, Memory()]) as target,
        connect(target.url, device="iwarp", kato=1.0) as controller,
    ):
        slow, other = controller.namespaces
        stuck = [asyncio.create_task(status_of(slow.read(block, 1))) for _ in range(100)]
        for number in range(100):
            await other.write(number, bytes([number]) * 512)
        assert await asyncio.gather(*stuck) == [Status.INTERNAL_ERROR] * 100
        if block < 2:
            await until(lambda: store.cancelled > 0)
        store.release = True
        while True:  # until the calls that are still running have ended
            try:
                assert len(await slow.read(8, 1)) == 512
                break
            except NvmeError:
                continue
        assert bytes(await other.read(99, 1)) == bytes([99]) * 512
        assert not controller.reconnects


async def test_the_target_stops_with_calls_under_way(caplog: pytest.LogCaptureFixture) -> None:
    store = Memory()
    target = await serve(store=store)
    controller = await connect(target.url, device="iwarp")
    store.hold = True
    reads = [asyncio.create_task(controller.namespaces[0].read(i, 1)) for i in range(MANY)]
    await until(lambda: store.running > 0)
    await target.stop()
    for read in reads:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    await controller.close()
    assert (store.running, store.closed) == (0, 1)
    assert "stuck" not in caplog.text


async def test_a_namespace_is_removed_with_calls_under_way() -> None:
    store = Slow()
    async with serve(store=[Memory(), store], nqn="nqn.2026-11.io.example:gone") as target:
        controller = await connect(target.url, device="iwarp")
        stuck = asyncio.create_task(status_of(controller.namespaces[1].read(0, 1)))
        await until(lambda: store.tried > 0)
        subsystem = target.config.subsystems[0]
        kept = subsystem.model_copy(update={"namespaces": subsystem.namespaces[:1]})
        await target.apply(target.config.model_copy(update={"subsystems": (kept,)}))
        assert await stuck is Status.INTERNAL_ERROR
        await until(lambda: store.closed > 0)
        await controller.namespaces[0].write(0, bytes(512))
        await controller.close()


async def test_a_host_leaves_with_calls_under_way() -> None:
    store = Memory()
    async with serve(store=store) as target:
        first = await connect(target.url, device="iwarp")
        store.hold = True
        reads = [asyncio.create_task(first.namespaces[0].read(i, 1)) for i in range(30)]
        await until(lambda: store.running > 0)
        for read in reads:
            read.cancel()
        await first.close()
        store.hold = False
        async with connect(target.url, device="iwarp") as second:
            await second.namespaces[0].write(0, bytes(512))


async def test_two_reactors_and_hosts_that_leave() -> None:
    store = Cached()
    register_store("of-two", lambda: store)
    text = "[target]\nreactors = 2\n" + TEXT.format(name="of-two").replace("options", "#")
    try:
        async with serve(text) as target:
            hosts = [await connect(target.url, device="iwarp", queues=2) for _ in range(4)]

            async def load(host: Controller, first: int) -> None:
                disk = host.namespaces[0]
                for turn in range(20):
                    data = bytes([first, turn]) * 256
                    await asyncio.gather(*(disk.write(first + i, data) for i in range(32)))
                    assert bytes(await disk.read(first, 32)) == data * 32

            await asyncio.gather(*(load(host, 32 * n) for n, host in enumerate(hosts)))
            left = [asyncio.create_task(load(host, 32 * n)) for n, host in enumerate(hosts)]
            before = len(store.calls)
            await until(lambda: len(store.calls) > before + 100)
            for host in hosts:
                await host.close()
            await asyncio.gather(*left, return_exceptions=True)
            async with connect(target.url, device="iwarp") as host:
                await host.namespaces[0].write(0, bytes(512))
    finally:
        unregister_store("of-two")


async def test_the_target_stops_although_a_store_spins(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storethread, "_SETTLE", 0.1)
    store = Slow()
    target = await serve(store=store)
    controller = await connect(target.url, device="iwarp")
    read = asyncio.create_task(controller.namespaces[0].read(2, 1))
    await until(lambda: store.tried)
    await target.stop()
    assert "its thread is left behind" in caplog.text
    read.cancel()
    await asyncio.gather(read, return_exceptions=True)
    await controller.close()
    store.release = True
    await until(lambda: store.closed == 1)


@pytest.mark.parametrize("way", ["exit", "stop", "cancel"])
async def test_a_store_that_ends_its_loop_is_closed(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Ends(Memory):
        time_limit = 0.5
        task: asyncio.Task[None]

        async def read(self, offset: int, length: int) -> memoryview:
            match way:
                case "exit":
                    self.task = asyncio.create_task(self.leave())
                    self.task.add_done_callback(lambda task: task.exception())
                case "stop":
                    asyncio.get_running_loop().stop()
                case "cancel":
                    for task in asyncio.all_tasks():
                        task.cancel()
            return await super().read(offset, length)

        async def leave(self) -> None:
            raise SystemExit(3)

    store = Ends()
    async with (
        serve(store=[store, Memory()]) as target,
        connect(target.url, device="iwarp") as controller,
    ):
        assert await status_of(controller.namespaces[0].read(0, 1)) is Status.INTERNAL_ERROR
        await until(lambda: store.closed == 1)
        assert await status_of(controller.namespaces[0].read(0, 1)) is Status.INTERNAL_ERROR
        assert len(await controller.namespaces[1].read(0, 1)) == 512
    assert store.closed == 1
    assert "the thread of" in caplog.text
    assert "not closed properly" not in caplog.text
