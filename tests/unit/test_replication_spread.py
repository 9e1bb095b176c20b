# SPDX-License-Identifier: BSD-3-Clause
"""Writes of a mirror that the engine sends to all replicas at once, on real targets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nvmf.engine import HostSpread
from nvmf.initiator import TransportId, connect
from nvmf.initiator.client.direct import Direct
from nvmf.replication import (
    Deposed,
    FileReplica,
    LegState,
    Mirror,
    MirrorState,
    NamespaceReplica,
    Replica,
)
from nvmf.replication.history import Access, violation
from support.relay import Relay, free_ports
from support.replicas import Memory, files, targets

REGION = 64 << 10
BLOCK = 4096


class Watched(NamespaceReplica):
    """Counts the writes of data that do not go through the engine's spread."""

    alone = 0

    async def write(self, offset: int, data: bytes) -> None:
        self.alone += 1
        await super().write(offset, data)

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        self.alone += len(data) != self.unit  # that would be a page of the map
        return super().begin_write(offset, data, then)


@asynccontextmanager
async def opened(
    replicas: list[Replica], quorum: int = 2, *, hasty: bool = False
) -> AsyncIterator[Mirror]:
    """Make a mirror; hasty: a replica that does not answer is lost, and tried again, after a short
    time.

    Otherwise it waits for all replicas, so that a slow machine does not make one lag.
    """
    made = Mirror(replicas, quorum, resync_rate=None, timeout=60, patience=60)
    if hasty:
        made = Mirror(replicas, quorum, resync_rate=None, timeout=2.0, patience=0.02, retry=0.05)
    async with made as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        yield mirror


async def everywhere(mirror: Mirror, offset: int, length: int) -> list[bytes]:
    """Read the same data from each replica: they are used in turn."""
    return [await mirror.read(offset, length) for _ in mirror.replicas]


async def test_writes_go_to_all_replicas_at_once() -> None:
    async with targets() as urls:
        replicas = [Watched(url) for url in urls]
        async with opened([*replicas]) as mirror:
            before = [replica.alone for replica in replicas]
            data = [random.randbytes(2 * BLOCK) for _ in range(40)]
            for i, one in enumerate(data):
                await mirror.write(i * len(one), one)
            whole = await everywhere(mirror, 0, 40 * 2 * BLOCK)
            assert set(whole) == {b"".join(data)}
            assert [replica.alone for replica in replicas] == before
            assert mirror.state is MirrorState.CLEAN


async def test_many_writes_with_one_call() -> None:
    async with targets() as urls:
        replicas = [Watched(url) for url in urls]
        async with opened([*replicas]) as mirror:
            before = [replica.alone for replica in replicas]
            places = random.sample(range(mirror.size // BLOCK), 500)
            data = random.randbytes(500 * BLOCK)
            await mirror.write_many([place * BLOCK for place in places], data)
            await mirror.write_many(range(0, REGION, BLOCK), data[:REGION])  # in order
            parts = {place: data[i * BLOCK : (i + 1) * BLOCK] for i, place in enumerate(places)}
            parts |= {i: data[i * BLOCK : (i + 1) * BLOCK] for i in range(REGION // BLOCK)}
            for _ in replicas:
                content = await mirror.read(0, mirror.size)
                for place, part in parts.items():
                    assert content[place * BLOCK : (place + 1) * BLOCK] == part
            assert [replica.alone for replica in replicas] == before
            assert mirror.state is MirrorState.CLEAN


async def test_many_writes_that_cross_regions_or_are_large(tmp_path: Path) -> None:
    async with targets(2) as urls:
        paths = files(tmp_path, 1, 4 << 20)
        replicas: list[Replica] = [NamespaceReplica(url) for url in urls]
        async with opened([*replicas, FileReplica(paths[0])]) as mirror:
            for length in (3 * BLOCK, 5 * REGION):
                places = list(range(BLOCK, mirror.size - length, length + 7 * BLOCK))
                data = random.randbytes(len(places) * length)
                await mirror.write_many(places, data)
                for i, place in enumerate(places):
                    part = data[i * length : (i + 1) * length]
                    assert set(await everywhere(mirror, place, length)) == {part}
            await mirror.clean()


async def test_many_writes_that_are_refused() -> None:
    async with opened([Memory(1 << 20), Memory(1 << 20)], 1) as mirror:
        await mirror.write_many([], b"")
        for places, data, why in (
            ([0, BLOCK], bytes(BLOCK), "bytes for 2 writes"),
            ([], bytes(BLOCK), "for 0 writes"),
            ([0, 0], bytes(2 * BLOCK), "overlap at 0"),
            ([0, BLOCK], bytes(4 * BLOCK), "overlap at 4096"),
            ([100], bytes(BLOCK), "not a multiple"),
            ([-BLOCK], bytes(BLOCK), "not in"),
            ([mirror.size], bytes(BLOCK), "not in"),
        ):
            with pytest.raises(ValueError, match=why):
                await mirror.write_many(places, data)
        assert await mirror.read(0, BLOCK) == bytes(BLOCK)
    with pytest.raises(Exception, match="not open"):
        await Mirror([Memory(1 << 20)], 1).write_many([0], bytes(BLOCK))


async def test_overlapping_writes_are_the_same_on_all_replicas() -> None:
    async with targets() as urls, opened([NamespaceReplica(url) for url in urls]) as mirror:

        async def write(number: int) -> None:
            for turn in range(20):
                block = bytes([number * 20 + turn]) * BLOCK
                if turn % 2:
                    await mirror.write_many([i * BLOCK for i in (0, 2, 4)], block * 3)
                else:
                    await mirror.write(turn % 3 * BLOCK, block * 3)

        await asyncio.gather(*(write(number) for number in range(12)))
        found = await everywhere(mirror, 0, 8 * BLOCK)
        assert len(set(found)) == 1
        assert all(found[0][i : i + 1] * BLOCK == found[0][i : i + BLOCK]
                   for i in range(0, 5 * BLOCK, BLOCK))  # fmt: skip


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@asynccontextmanager
async def behind_relay(url: str) -> AsyncIterator[tuple[str, Relay]]:
    where = TransportId.of(url)
    (port,) = free_ports(1)
    relay = Relay(port, int(where.trsvcid))
    await relay.open()
    try:
        yield url.replace(f":{where.trsvcid}/", f":{port}/"), relay
    finally:
        await relay.cut()


@pytest.mark.parametrize("fault", ["cut", "hold_answers", "cut_after"])
async def test_a_replica_is_lost_in_the_middle(fault: str) -> None:
    """Nothing that was acknowledged is missing, and the replica comes back."""
    async with targets() as urls, behind_relay(urls[1]) as (middle, relay):
        replicas: list[Replica] = [NamespaceReplica(u) for u in (urls[0], middle, urls[2])]
        async with opened(replicas, hasty=True) as mirror:
            histories: list[list[Access]] = [[] for _ in range(64)]
            values = iter(range(1, 1 << 30))
            loop = asyncio.get_running_loop()
            done = 0

            async def work(seed: int) -> None:
                nonlocal done
                chance = random.Random(seed)
                for _ in range(60):
                    start = loop.time()
                    blocks = chance.sample(range(64), chance.choice([1, 1, 8]))
                    mine = [next(values) for _ in blocks]
                    data = b"".join(value.to_bytes(8, "little") * 512 for value in mine)
                    if len(blocks) == 1:
                        await mirror.write(blocks[0] * BLOCK, data)
                    else:
                        await mirror.write_many([block * BLOCK for block in blocks], data)
                    for block, value in zip(blocks, mine, strict=True):
                        histories[block].append(Access(value, start, loop.time(), True))
                    start, block = loop.time(), chance.randrange(64)
                    found = await mirror.read(block * BLOCK, BLOCK)
                    assert found == found[:8] * 512
                    seen = int.from_bytes(found[:8], "little") or None
                    histories[block].append(Access(seen, start, loop.time(), False))
                    done += 1

            running = [asyncio.create_task(work(seed)) for seed in range(6)]
            async with asyncio.timeout(60):
                await until(lambda: done >= 60)
                if fault == "cut":
                    await relay.cut()
                elif fault == "cut_after":
                    relay.cut_after(50000)
                else:
                    relay.hold_answers()
                await until(lambda: mirror.replicas[1].state is not LegState.IN)
                await asyncio.gather(*running)
                await relay.cut()
                await relay.open()
                await mirror.clean()
            for history in histories:
                assert violation(history) is None
            assert len(set(await everywhere(mirror, 0, 64 * BLOCK))) == 1


async def test_a_replica_is_replaced_in_the_middle() -> None:
    async with targets(4) as urls, opened([Watched(url) for url in urls[:3]]) as mirror:
        content = bytearray(64 * BLOCK)
        ended = False

        async def work(number: int) -> None:
            turn = 0
            while not ended:
                turn += 1
                for place in (number, number + 32):
                    data = bytes([number, turn % 256]) * (BLOCK // 2)
                    content[place * BLOCK : (place + 1) * BLOCK] = data
                places = [number * BLOCK, (number + 32) * BLOCK]
                await mirror.write_many(places, data * 2)
                await mirror.write(number * BLOCK, data)

        running = [asyncio.create_task(work(number)) for number in range(4)]
        added = Watched(urls[3])
        await mirror.replace(1, added)
        async with asyncio.timeout(60):
            await mirror.clean()
        before = added.alone
        ended = True
        await asyncio.gather(*running)
        await mirror.write(0, bytes(content[:BLOCK]))
        assert added.alone == before  # it is a leg of the engine's spread, too
        assert set(await everywhere(mirror, 0, len(content))) == {bytes(content)}


async def test_the_writer_is_fenced() -> None:
    async with targets() as urls, opened([NamespaceReplica(u) for u in urls]) as first:
        await first.write(0, b"\1" * BLOCK)
        async with Mirror([NamespaceReplica(url) for url in urls], 2) as second:
            await second.open()
            with pytest.raises(Deposed):
                await first.write_many([0, 2 * BLOCK], b"\2" * (2 * BLOCK))
            with pytest.raises(Deposed):
                await first.write(0, b"\2" * BLOCK)
            await second.write(0, b"\3" * BLOCK)
            assert set(await everywhere(second, 0, BLOCK)) == {b"\3" * BLOCK}


async def test_fewer_than_the_quorum_acknowledge_nothing() -> None:
    async with (
        targets() as urls,
        behind_relay(urls[1]) as (one, first),
        behind_relay(urls[2]) as (two, second),
    ):
        replicas: list[Replica] = [NamespaceReplica(url) for url in (urls[0], one, two)]
        async with opened(replicas, hasty=True) as mirror:
            await mirror.write(0, b"\1" * BLOCK)
            first.hold_answers()
            second.hold_answers()
            writes = [
                asyncio.create_task(mirror.write_many([0, 2 * BLOCK], b"\2" * (2 * BLOCK))),
                asyncio.create_task(mirror.write(4 * BLOCK, b"\2" * BLOCK)),
            ]
            async with asyncio.timeout(60):
                await until(lambda: mirror.state is MirrorState.BLOCKED)
                assert not any(write.done() for write in writes)
                for relay in (first, second):
                    await relay.cut()
                    await relay.open()
                await asyncio.gather(*writes)
                await mirror.clean()
            for at in (0, 2, 4):
                assert set(await everywhere(mirror, at * BLOCK, BLOCK)) == {b"\2" * BLOCK}


async def test_a_queue_that_is_being_freed_is_not_written_to() -> None:
    """Its memory is freed by a different thread, at any time after close()."""
    told: list[tuple[int, int]] = []

    def tell(has: int, failed: int) -> None:
        told.append((has, failed))

    async with targets(1) as (url,), connect(url) as controller:
        spread = HostSpread(1)
        assert Direct(controller.namespace(1)).join(spread, 0)
        session = controller.connection.usable
        assert session is not None
        (queue,) = (one for one in session.queues if one.on_closed is not None)
        assert spread.write(1, 0, bytes(BLOCK), tell, True) >= 0
        closing = queue.close("closed by the test")
        assert (spread.attached, spread.stopped) == (0, 1)
        assert spread.write(1, 0, bytes(BLOCK), tell) < 0
        spread.flush()
        assert not told
        await closing
        assert (spread.attached, spread.stopped, told) == (0, 0, [(0, 1)])


def test_a_spread_that_cannot_be() -> None:
    for legs, small in ((0, 1), (17, 1), (3, 0)):
        with pytest.raises(ValueError, match="a spread of"):
            HostSpread(legs, small=small, large=0)
    spread = HostSpread(3)
    assert not spread.attached
    assert not spread.news
    assert spread.write(1, 0, bytes(512), print) < 0
    assert spread.write_many(1, memoryview(bytes(16)).cast("Q"), bytes(1024), print) < 0
    with pytest.raises(ValueError, match="the same length"):
        spread.write_many(1, memoryview(bytes(16)).cast("Q"), bytes(1023), print)
    with pytest.raises(ValueError, match="array"):
        spread.write_many(1, bytes(16), bytes(1024), print)
    with pytest.raises(BufferError):
        spread.buffer.clear()
