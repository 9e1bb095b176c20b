# SPDX-License-Identifier: BSD-3-Clause
"""The shell of a core: operations that begin without a task, and abandoned operations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

import nvmf.target
from nvmf.replication import (
    LegState,
    Mirror,
    MirrorState,
    NamespaceReplica,
    QuickReplica,
    Replica,
)
from support.replicas import Memory, targets

REGION = 64 << 10
PAGE = b"\x5a" * 4096


class Quick(Memory):
    """Memory that begins operations without a coroutine, and can refuse, fail or never answer."""

    def __init__(self, size: int = 1 << 20) -> None:
        super().__init__(size)
        self.behaviour = "answer"
        self.begun = 0
        self.late: list[Callable[[], None]] = []

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        def work() -> None:
            self.bytes[offset : offset + len(data)] = data
            then(True)

        return self._begin(work, lambda: then(False))

    def begin_read(self, offset: int, length: int, then: Callable[[bytes | None], None]) -> bool:
        return self._begin(
            lambda: then(bytes(self.bytes[offset : offset + length])), lambda: then(None)
        )

    def _begin(self, work: Callable[[], None], fail: Callable[[], None]) -> bool:
        if self.behaviour == "refuse" or self.broken:
            return False
        if self.behaviour == "raise":
            raise RuntimeError("this replica has a mistake")
        self.begun += 1
        if self.behaviour == "silent":
            self.late.append(work)
        else:
            call = work if self.behaviour == "answer" else fail
            asyncio.get_running_loop().call_soon(call)
        return True


class Hanging(Memory):
    """Memory that answers again when it was opened again."""

    async def fence(self) -> None:
        await super().fence()
        self.frozen.set()


async def test_replicas_of_the_client_begin_without_a_task() -> None:
    async with targets(1) as (url,):
        replica = NamespaceReplica(url)
        assert isinstance(replica, QuickReplica)
        answers: asyncio.Queue[object] = asyncio.Queue()
        assert not replica.begin_write(0, PAGE, answers.put_nowait)  # it is not connected
        await replica.fence()
        try:
            await replica.write(0, bytes(4096))  # the buffers are registered
            assert replica.begin_write(4096, PAGE, answers.put_nowait)
            assert await answers.get() is True
            assert replica.begin_read(4096, 4096, answers.put_nowait)
            assert await answers.get() == PAGE
            assert await replica.read(4096, 4096) == PAGE
            for offset, data in ((7, PAGE), (0, PAGE[:100]), (replica.size, PAGE), (0, b"")):
                assert not replica.begin_write(offset, data, answers.put_nowait)
            assert not replica.begin_write(0, bytes(4 << 20), answers.put_nowait)
            assert not replica.begin_read(replica.size, 4096, answers.put_nowait)
            # More than the queue and the buffers have room for: the others wait in write().
            begun = sum(replica.begin_write(0, PAGE, answers.put_nowait) for _ in range(1000))
            assert 0 < begun < 1000
            assert all([await answers.get() for _ in range(begun)])
        finally:
            await replica.close()
        assert not replica.begin_read(0, 4096, answers.put_nowait)
        assert answers.empty()


async def test_a_write_that_was_begun_when_its_target_ends() -> None:
    lost: list[str] = []
    async with targets(2) as urls, AsyncExitStack() as stack:
        third = await stack.enter_async_context(nvmf.target.serve(ram="4MiB"))
        name = third.url
        async with Mirror(
            [NamespaceReplica(url) for url in (*urls, name)],
            2,
            retry=60,
            lost=lambda name, why: lost.append(f"{name}: {why}"),
        ) as mirror:
            await mirror.create(region=REGION)
            await mirror.clean()
            await mirror.write(0, PAGE)
            writes = [
                asyncio.create_task(mirror.write(i * 4096, bytes([i + 1]) * 4096))
                for i in range(64)
            ]
            await stack.aclose()
            await asyncio.gather(*writes)
            await mirror.write(64 * 4096, PAGE)
            for i in range(64):
                assert await mirror.read(i * 4096, 4096) == bytes([i + 1]) * 4096
            assert mirror.state is MirrorState.DEGRADED
            assert len(lost) == 1
            assert name in lost[0]


@pytest.mark.parametrize("behaviour", ["refuse", "fail", "raise"])
async def test_what_cannot_begin_is_written_and_read(behaviour: str) -> None:
    replicas = [Quick() for _ in range(3)]
    async with Mirror(replicas, 2) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        for replica in replicas:
            replica.behaviour = behaviour
        await mirror.write(8192, PAGE)
        assert await mirror.read(8192, 4096) == PAGE
        await mirror.clean()  # on a busy machine a replica may lag for a moment
        assert mirror.state is MirrorState.CLEAN
        assert len({bytes(replica.bytes[8192:]) for replica in replicas}) == 1


async def test_a_replica_that_does_not_answer_is_lost() -> None:
    replicas = [Quick() for _ in range(3)]
    why: asyncio.Queue[str] = asyncio.Queue()
    async with Mirror(
        replicas,
        2,
        timeout=0.2,
        patience=0.01,
        retry=60,
        lost=lambda _, reason: why.put_nowait(reason),
    ) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        replicas[1].behaviour = "silent"
        await mirror.write(0, PAGE)
        assert await asyncio.wait_for(why.get(), 60) == (
            "memory has not answered a write for 0.2 s"
        )
        assert mirror.replicas[1].state is LegState.OUT
        replicas[1].behaviour = "answer"
        await mirror.rejoin(1)
        for late in replicas[1].late:  # of the earlier connection: ignored
            late()
        async with asyncio.timeout(60):
            await mirror.clean()
        assert await mirror.read(0, 4096) == PAGE


async def test_a_callback_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """The exception of the callback for lost replicas is logged, and the mirror goes on."""
    replicas = [Quick() for _ in range(3)]
    told: list[str] = []

    def lost(name: str, why: str) -> None:
        told.append(name)
        raise OSError("the pager does not answer")

    async with Mirror(replicas, 2, retry=600, lost=lost) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        replicas[1].broken = True
        replicas[1].behaviour = "refuse"
        await mirror.write(0, PAGE)
        async with asyncio.timeout(60):
            while not told:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await mirror.write(4096, PAGE)
        assert await mirror.read(0, 8192) == PAGE * 2
        assert mirror.state is MirrorState.DEGRADED
    assert "the pager does not answer" in caplog.text


@pytest.mark.parametrize("kind", [Hanging, Quick])
async def test_what_was_under_way_when_a_replica_is_opened_again(kind: type[Memory]) -> None:
    """A write hangs, then the connection fails: the region is still resynchronised."""
    replicas = [kind(1 << 20) for _ in range(3)]
    hanging = replicas[1]
    async with Mirror(
        replicas, 2, timeout=600, patience=0.01, retry=0.02, resync_rate=None
    ) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        if isinstance(hanging, Quick):
            hanging.behaviour = "silent"
        else:
            hanging.frozen.clear()
        await mirror.write(0, PAGE)
        hanging.broken = True
        await mirror.write(REGION, PAGE)
        assert mirror.replicas[1].state is not LegState.IN  # it may be tried again already
        if isinstance(hanging, Quick):
            hanging.behaviour = "answer"
        hanging.broken = False
        async with asyncio.timeout(60):
            await mirror.clean()
        for at in (0, REGION):
            for _ in replicas:  # in turn from each of them
                assert await mirror.read(at, 4096) == PAGE


async def test_resynchronisation_is_limited_while_the_mirror_is_used() -> None:
    """Under load, the limit would make resynchronisation take days; without load it does not
    apply.
    """
    replicas: list[Replica] = [Quick(16 << 20) for _ in range(2)]
    async with Mirror(replicas, 1, resync_rate=50.0) as mirror:
        await mirror.create(region=1 << 20)
        for _ in range(200):
            await mirror.write(0, PAGE)
            await mirror.read(0, 4096)
        assert mirror.replicas[1].lagging > 1
        async with asyncio.timeout(60):  # it is not used
            await mirror.clean()
