# SPDX-License-Identifier: BSD-3-Clause
"""The tail words of a log: by ATOMIC WRITE behind a FLUSH, over the embedded RoCEv2 device."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from nvmf.engine import EngineError
from nvmf.pmem.path import Path as MemoryPath
from nvmf.pmem.platform import MethodRefused
from nvmf.pmem.remote import MemoryMethod, RemoteMemory
from nvmf.pmem.replica import RemoteMemoryReplica
from nvmf.replication import (
    AppendReplica,
    Damaged,
    Log,
    NamespaceReplica,
    ReplicaError,
    ReplicationError,
    logformat,
)
from nvmf.spec.memory import Opened, Platform
from nvmf.target import Target
from support.memorylab import CONFIG, HOST, opened, over_roce, running
from support.mirrorlab import until
from support.roce import RESPONSES, Relay, own_address

WRITE_ONLY, FLUSH, ATOMIC_WRITE = 0x0A, 0x1C, 0x1D
TAIL = 4096
"""The offset of the tail word in tests of the method alone."""


def there(**more: object) -> dict[str, Any]:
    return {"device": "roce", "host_traddr": own_address(), "method": "write-flush-tail", **more}


async def one(where: Target | str, **options: object) -> RemoteMemory:
    if isinstance(where, Target):
        return await opened(where, **there(**options))
    return await RemoteMemory.connect(where, force=True, hostnqn=HOST, **there(**options))


# ---- the method ----


async def test_one_chain() -> None:
    """An append is four requests in their order, sent without waiting for an answer."""
    seen: list[int] = []
    silent = False

    def note(packet: bytes) -> list[bytes]:
        answer = packet[0] in RESPONSES
        if not answer:
            seen.append(packet[0])
        return [] if silent and answer else [packet]

    async with running(over_roce(own_address())) as target:
        place = target.url.split("//")[1].split(":")[0]
        with Relay(place, note) as relay:
            async with await one(target.url.replace(place, relay.address)) as memory:
                assert memory.tails
                assert memory.name == "write-flush-tail"
                await memory.append(8192, b"a record", TAIL, b"its word")
                assert await memory.read(8192, 8) == b"a record"
                assert await memory.read(TAIL, 8) == b"its word"
                seen.clear()
                silent = True
                task = asyncio.create_task(memory.append(8200, b"a second", TAIL, b"and word"))
                await until(lambda: len(seen) >= 4)
                assert seen[:4] == [WRITE_ONLY, FLUSH, ATOMIC_WRITE, FLUSH]
                assert not task.done()
                silent = False
                await task


@pytest.mark.parametrize("loss", [0.0, 0.03])
async def test_the_word_never_covers_what_is_not_there(loss: float) -> None:
    """A reader finds all data before the word, whatever packets are lost on the way."""
    chance = random.Random(3)
    lossy = False

    def spoil(packet: bytes) -> list[bytes]:
        return [] if lossy and chance.random() < loss else [packet]

    async with running(over_roce(own_address())) as target:
        place = target.url.split("//")[1].split(":")[0]
        with Relay(place, spoil) as relay:
            memory = await one(target.url.replace(place, relay.address), depth=8, slot_bytes=4096)
            async with memory, await one(target) as reader:
                data = chance.randbytes(1 << 20)
                ends: list[int] = []
                tasks = []
                at = 0
                lossy = True
                while at < len(data) - 20000:
                    size = chance.choice([1, 100, 3000, 15000])
                    piece, at = data[at : at + size], at + size
                    word = at.to_bytes(8, "little")
                    tasks.append(
                        asyncio.create_task(memory.append(TAIL + 64 + at - size, piece, TAIL, word))
                    )
                    tasks[-1].add_done_callback(lambda _, at=at: ends.append(at))  # type: ignore[misc]
                looks = checked = 0
                while not all(task.done() for task in tasks):
                    known = max(ends, default=0)
                    end = int.from_bytes(await reader.read(TAIL, 8), "little")
                    assert end >= known
                    found = await reader.read(TAIL + 64 + checked, end - checked)
                    assert found == data[checked:end]
                    looks += end > checked
                    checked = end
                await asyncio.gather(*tasks)
                assert looks > 3
                lossy = False


async def test_an_append_that_is_given_up() -> None:
    """Later ones are refused: their words would cover it."""
    async with running(over_roce(own_address())) as target:
        memory = await one(target, depth=1, slot_bytes=64)
        async with memory:
            tasks = [
                asyncio.create_task(memory.append(8192 + n * 256, b"x" * 256, TAIL, b"%08d" % n))
                for n in range(3)
            ]
            await asyncio.sleep(0)
            tasks[1].cancel()  # it waits for the first one: nothing of it was sent
            tasks[0].cancel()  # a part of it was sent
            assert isinstance((await asyncio.gather(*tasks, return_exceptions=True))[2], OSError)
            with pytest.raises(OSError, match="an earlier append was given up"):
                await memory.append(8192, b"x", TAIL, b"%08d" % 4)
            assert await memory.read(TAIL, 8) == bytes(8)
            await memory.write(0, b"y")
            assert await memory.read(0, 1) == b"y"


async def test_what_cannot_be_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as target:
        with pytest.raises(MethodRefused, match="write-flush-tail needs RDMA FLUSH, which the iw"):
            await opened(target, method="write-flush-tail")
    async with running(over_roce(own_address())) as target:
        async with await one(target) as memory:
            for offset, data, at, word in (
                (0, b"", TAIL, bytes(8)),
                (memory.size, b"1", TAIL, bytes(8)),
                (0, b"1", TAIL + 4, bytes(8)),
                (0, b"1", memory.size, bytes(8)),
                (0, b"1", TAIL, bytes(7)),
            ):
                with pytest.raises(ValueError, match=r"not in a range|a word has|nothing to"):
                    await memory.append(offset, data, at, word)
            with pytest.raises(EngineError):
                memory._client.tail_at(memory.size)
            await memory.append(0, b"1", TAIL, bytes(8))
        async with await one(target, method="write-flush") as memory:
            with pytest.raises(MethodRefused, match="cannot append: write-flush-tail"):
                await memory.append(0, b"1", TAIL, bytes(8))
        real = Opened.decode

        def decode(data: bytes) -> Opened:
            told = real(data)
            return replace(told, platform=told.platform & ~int(Platform.ATOMIC))

        monkeypatch.setattr(Opened, "decode", decode)
        with pytest.raises(MethodRefused, match="and that an ATOMIC WRITE of 8 bytes"):
            await one(target, force=False)
        log = Log(on([target]), 1)
        async with log:  # forced: a log without tail words, and the results say why
            await log.create()
            assert log.tail_words == [""]
            (replica,) = log._replicas
            assert isinstance(replica, RemoteMemoryReplica)
            assert any("ATOMIC WRITE" in text for text in replica.unmet)
            await log.append(b"record")


# ---- a log ----


@contextlib.asynccontextmanager
async def targets(count: int = 3) -> AsyncIterator[list[Target]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(running(over_roce(own_address()))) for _ in range(count)
        ]


def on(there: list[Target], method: MemoryMethod = "write-flush-tail") -> list[RemoteMemoryReplica]:
    words = f"?device=roce&hostnqn={HOST}&host_traddr={own_address()}"
    return [RemoteMemoryReplica(f"{one.url}{words}", method=method, force=True) for one in there]


async def contents(log: Log) -> list[bytes]:
    return [record async for _, record in log.records()]


async def words_of(there: list[Target]) -> list[int]:
    found = []
    for target in there:
        async with await one(target) as memory:
            found.append(int.from_bytes(await memory.read(logformat.TAIL, 8), "little"))
    return found


async def release(log: Log) -> None:
    """Wait until all replicas have all frames, and end its reservations, so that the test can look
    at the memory.
    """
    await until(lambda: not any(leg.pending for leg in log._core.legs))
    for replica in log._replicas:
        assert isinstance(replica, RemoteMemoryReplica)
        await replica.give_up()


async def fill(there: list[Target], method: MemoryMethod) -> int:
    """Create a log of 20 records; the LSN of the last one."""
    async with Log(on(there, method), 2) as log:
        await log.create()
        assert log.tail_words == ["atomic-write" if "tail" in method else ""] * 3
        for n in range(20):
            last = await log.append(b"record %d" % n)
        await release(log)
    return last


async def spoil(there: list[Target], at: int) -> None:
    """Damage a byte of all replicas."""
    for target in there:
        async with await one(target) as memory:
            byte = await memory.read(at, 1)
            await memory.write(at, bytes([byte[0] ^ 0xFF]))


async def test_a_log_with_tail_words() -> None:
    """Its last record cannot be lost without notice."""
    async with targets() as there:
        last = await fill(there, "write-flush-tail")
        assert await words_of(there) == [(1 << 48) + (last + 64) // 64] * 3  # of the first epoch
        at = logformat.TAIL + logformat.SLOT + last
        await spoil(there, at)
        async with Log(on(there), 2) as log:
            with pytest.raises(Damaged, match="no replica that is here has them whole"):
                await log.recover()
            await release(log)
        await spoil(there[:1], at)  # one of them has it again
        async with Log(on(there), 2) as log:
            await log.recover()
            assert await contents(log) == [b"record %d" % n for n in range(20)]


async def test_a_log_without_them() -> None:
    """A damaged last record is like one that was never acknowledged."""
    async with targets() as there:
        last = await fill(there, "write-flush")
        await spoil(there, logformat.START + last)
        async with Log(on(there), 2) as log:
            await log.recover()
            assert log.tail_words == [""] * 3
            assert await contents(log) == [b"record %d" % n for n in range(19)]


async def test_a_writer_that_does_not_write_them() -> None:
    """It clears them, so that they do not cover what they have not seen."""
    async with targets() as there:
        await fill(there, "write-flush-tail")
        async with Log(on(there, "write-send"), 2) as log:
            await log.recover()
            assert log.tail_words == [""] * 3
            await log.append(b"more")
            await release(log)
        assert await words_of(there) == [0] * 3
        async with Log(on(there), 2) as log:
            await log.recover()
            assert log.tail_words == ["atomic-write"] * 3
            assert len(await contents(log)) == 21
            await release(log)
        assert all(await words_of(there))


async def test_a_replica_that_comes_back() -> None:
    async with targets() as there, Log(on(there), 2) as log:
        await log.create()
        await log.append(b"one")
        log._core.lose(2, ReplicaError("the path is cut"))
        await log.append(b"two")
        await log.rejoin(2)
        await log.append(b"three")
        assert all(isinstance(replica, AppendReplica) for replica in log._replicas)
        await release(log)
        assert len(set(await words_of(there))) == 1
        async with Log(on(there), 2) as second:
            await second.recover()
            assert await contents(second) == [b"one", b"two", b"three"]


async def test_recovery_reads_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tail word there is no need to look for damage after the last frame."""
    read = 0
    real = MemoryPath._run

    async def counted(self: MemoryPath, method: str, offset: int, length: int, *more: Any) -> bytes:
        nonlocal read
        read += length if method == "read" else 0
        return await real(self, method, offset, length, *more)

    monkeypatch.setattr(MemoryPath, "_run", counted)
    found = {}
    methods: list[MemoryMethod] = ["write-flush", "write-flush-tail"]
    for method in methods:
        async with targets() as there:
            await fill(there, method)
            read = 0
            async with Log(on(there, method), 2) as log:
                await log.recover()
                found[method] = read
    assert found["write-flush"] > 3 * (3 << 20)
    assert found["write-flush-tail"] < 3 * (1 << 20)


async def test_tail_words_that_cannot_be_written() -> None:
    async with (
        running(CONFIG) as target,
        Log([NamespaceReplica(f"{target.url}?hostnqn={HOST}")], 1) as log,
    ):
        with pytest.raises(ReplicationError, match="cannot create a log with tail words: name"):
            await log.create(tail=True)
        await log.create()
        assert log.tail_words == [""]
    async with targets(1) as there, Log(on(there), 1) as log:
        await log.create(tail=False)
        assert log.tail_words == [""]
