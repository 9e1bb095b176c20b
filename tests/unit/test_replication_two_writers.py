# SPDX-License-Identifier: BSD-3-Clause
"""A deposed writer that tries to bring back a replica leaves its successor alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest import mock

import pytest

from nvmf.initiator import ConnectionLost, NvmeError, connect
from nvmf.initiator.base.reservations import Reservations
from nvmf.replication import (
    Deposed,
    LegState,
    Log,
    LogState,
    Mirror,
    MirrorState,
    NamespaceReplica,
    QuorumLost,
    ReplicaError,
)
from support.replicas import targets

BLOCK = b"\1" * 512
CUT = ReplicaError("the path is cut")


class Remote(NamespaceReplica):
    """A namespace that can be out of reach."""

    away = False

    async def _reopen(self, hostid: str | None, *, preempt: bool) -> None:
        if self.away:
            raise CUT
        await super()._reopen(hostid, preempt=preempt)


def on(urls: Sequence[str]) -> list[Remote]:
    return [Remote(url) for url in urls]


@pytest.mark.parametrize("lost", [[2], [1, 2], [0, 1, 2]])
async def test_a_deposed_writer_of_a_mirror(lost: list[int]) -> None:
    async with targets() as urls:
        first, second = Mirror(on(urls), 2, retry=600), Mirror(on(urls), 2, resync_rate=None)
        async with first, second:
            await first.create()
            await first.clean()
            for index in lost:
                first._core.lose(index, CUT)
            await second.open()
            await second.clean()
            with pytest.raises(Deposed, match="a different writer has taken over"):
                await first.rejoin(2)
            assert first.state is MirrorState.DEPOSED
            await second.write(0, BLOCK)
            assert await second.read(0, 512) == BLOCK
            await second.clean()  # on a busy machine a replica may lag for a moment
            assert second.state is MirrorState.CLEAN


async def test_a_deposed_writer_of_a_log() -> None:
    async with targets() as urls:
        first, second = Log(on(urls), 2), Log(on(urls), 2)
        async with first, second:
            await first.create()
            await first.append(b"one")
            first._core.lose(2, CUT)
            await second.recover()
            with pytest.raises(Deposed, match="a different writer has taken over"):
                await first.rejoin(2)
            assert first.state is LogState.DEPOSED
            more = [b"%d" % number for number in range(20)]
            for record in more:
                await second.append(record)
            assert [record async for _, record in second.records()] == [b"one", *more]
            assert [state for _, state, _ in second.replicas] == [LegState.IN] * 3


async def test_a_replica_of_an_earlier_writer() -> None:
    """Its reservation stays, and is preempted by a writer that could not reach it before."""
    async with targets() as urls:
        async with Mirror(on(urls), 2) as before:
            await before.create()
            await before.clean()
        replicas = on(urls)
        replicas[2].away = True
        async with Mirror(replicas, 2, retry=600, resync_rate=None) as mirror:
            await mirror.open()
            await mirror.write(0, BLOCK)
            replicas[2].away = False
            await mirror.rejoin(2)
            await mirror.clean()
            mirror._core.lose(2, CUT)  # and then its own
            await mirror.rejoin(2)
            await mirror.clean()


async def test_a_replica_of_a_writer_that_has_not_taken_over() -> None:
    """It could fence one replica only: the present writer takes that back."""
    async with targets() as urls:
        replicas = on(urls)
        replicas[0].away = replicas[1].away = True
        first, second = Mirror(on(urls), 2, retry=600, resync_rate=None), Mirror(replicas, 2)
        async with first, second:
            await first.create()
            await first.clean()
            first._core.lose(2, CUT)
            with pytest.raises(QuorumLost):
                await second.open()
            await first.rejoin(2)
            await first.clean()
            await first.write(0, BLOCK)
            await first.clean()
            assert first.state is MirrorState.CLEAN


async def registrants(url: str) -> int:
    """Return how many hosts are registered with the namespace."""
    async with connect(url) as controller:
        return len((await controller.namespace(1).reservations.report()).registrants)


async def die_while_fencing(replica: NamespaceReplica) -> None:
    """Let the connection end after the registration, and before the reservation."""

    async def lost(*_: object, **__: object) -> None:
        raise ConnectionLost("the path is cut")

    with mock.patch.multiple(Reservations, preempt=lost, acquire=lost):
        with pytest.raises(ConnectionLost):
            await replica.fence()
        await replica.close()


async def test_registrations_of_fencings_that_failed() -> None:
    """The next fencing ends those of the same object, and one that preempts all of them."""
    async with targets(1) as (url,):
        mine, dead, next_one = (NamespaceReplica(url) for _ in range(3))
        for _ in range(3):
            await die_while_fencing(dead)
            await die_while_fencing(mine)
        await mine.fence_again()
        assert await registrants(url) == 4, "its own, and three of a writer that may be alive"
        assert await mine.holds()
        await next_one.fence()
        assert await registrants(url) == 1
        assert await next_one.holds()
        with pytest.raises(ReplicaError):
            await mine.write(0, BLOCK)
        await next_one.write(0, BLOCK)
        await die_while_fencing(next_one)
        await next_one.fence_again()
        await next_one.give_up()
        await next_one.close()
        await mine.close()
        assert await registrants(url) == 0


async def test_fencings_at_the_same_time() -> None:
    """One of several writers has the namespace afterwards, and no other can write."""
    async with targets(1) as (url,):
        writers = [NamespaceReplica(url) for _ in range(4)]
        for _ in range(10):
            ended = await asyncio.gather(
                *(writer.fence() for writer in writers), return_exceptions=True
            )
            assert all(isinstance(end, NvmeError) for end in ended if end is not None)
            fenced = [w for w, end in zip(writers, ended, strict=True) if end is None]
            holders = [writer for writer in fenced if await writer.holds()]
            assert len(holders) == 1
            for writer in writers:
                if writer in holders:
                    await writer.write(0, BLOCK)
                else:
                    with pytest.raises(ReplicaError):
                        await writer.write(0, BLOCK)
        for writer in writers:
            await writer.close()
