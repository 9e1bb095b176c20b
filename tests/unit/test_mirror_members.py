# SPDX-License-Identifier: BSD-3-Clause
"""Changes of a mirror's replicas: the writer dies at each of its writes, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nvmf.replication import LegState, Mirror, QuorumLost, ReplicationError
from nvmf.replication.mirrorformat import Geometry
from nvmf.replication.survey import arrange, form_of, look
from support.replicas import Memory

REGION = 64 << 10
SIZE = 512 << 10


class Fuse:
    """The number of writes, on all replicas together, after which the writer dies."""

    def __init__(self) -> None:
        self.left = 1 << 30


class Mortal(Memory):
    """Memory whose writer dies."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__(SIZE)
        self.fuse = fuse

    async def write(self, offset: int, data: bytes) -> None:
        self.fuse.left -= 1
        if self.fuse.left < 0:
            raise OSError(5, "the writer is dead")
        await super().write(offset, data)


async def opened(legs: Sequence[Memory]) -> Mirror:
    """Open the mirror on these, in its newest form, as a target does."""
    found = [await look(leg) for leg in legs]
    shape = form_of(found)
    assert shape is not None
    gone = Mortal(Fuse())
    gone.broken = True
    chosen = [legs[at] if at is not None else gone for at in arrange(found, shape)]
    mirror = Mirror(chosen, shape.quorum, retry=0.02, resync_rate=None, adopt_blank=True)
    try:
        await mirror.open()
    except BaseException:
        await mirror.close()
        raise
    return mirror


async def made(legs: Sequence[Memory], quorum: int) -> tuple[Geometry, int]:
    """Create a mirror with data in each region; return its form and its epoch."""
    async with Mirror(legs, quorum, resync_rate=None) as mirror:
        await mirror.create(region=REGION)
        await mirror.clean()
        for n in range(mirror.size // REGION):
            await mirror.write(n * REGION, bytes([n + 1]) * 4096)
        return mirror.form, mirror.epoch


async def check(mirror: Mirror) -> None:
    for n in range(mirror.size // REGION):
        for _ in mirror.replicas:
            assert await mirror.read(n * REGION, 4096) == bytes([n + 1]) * 4096


@pytest.mark.parametrize(
    ("count", "quorum", "places", "after"),
    [
        (2, 1, [0, 1, -1], 2),
        (2, 2, [0, 1, -1], 2),
        (3, 2, [0, 1], 1),
        (3, 2, [0, 2], 2),
        (3, 2, [2, 1], 1),
        (3, 2, [0, 1, 2], 3),
    ],
    ids=["add", "add to both", "remove", "remove the middle", "remove the first", "quorum"],
)
async def test_the_writer_dies(count: int, quorum: int, places: list[int], after: int) -> None:
    writes = 0
    ended = False
    while not ended:
        fuse = Fuse()
        old: list[Memory] = [Mortal(fuse) for _ in range(count)]
        form, epoch = await made(old, quorum)
        new: list[Memory] = [old[at] if at >= 0 else Mortal(fuse) for at in places]
        fuse.left = writes
        mirror = Mirror(new, after, resync_rate=None)
        try:
            await mirror.reshape(form, epoch, places)
            ended = True
        except (ReplicationError, OSError):
            pass
        fuse.left = 1 << 30
        await mirror.close()
        # Either all replicas that there were before are known to the next writer, or the new ones.
        said: list[str] = []
        for legs in ([*old, *(leg for leg in new if leg not in old)], new):
            try:
                mirror = await opened(legs)
            except QuorumLost as error:  # the other list is for this state
                said.append(str(error))
                continue
            async with mirror, asyncio.timeout(60):
                await check(mirror)
                for n in range(mirror.size // REGION):
                    await mirror.write(n * REGION, bytes([n + 1]) * 4096)
            break
        else:
            raise AssertionError(f"the mirror cannot be opened after {writes} writes: {said}")
        writes += 1
    assert writes > len(places)


async def test_a_new_replica_lacks_everything_until_it_was_copied() -> None:
    fuse = Fuse()
    old: list[Memory] = [Mortal(fuse) for _ in range(2)]
    form, epoch = await made(old, 1)
    new: list[Memory] = [*old, Mortal(fuse)]
    async with Mirror(new, 2, resync_rate=None) as mirror, asyncio.timeout(60):
        await mirror.reshape(form, epoch, [0, 1, -1])
        await check(mirror)
        await mirror.clean()
        await check(mirror)
    start = form.start
    assert new[2].bytes[start:] == old[0].bytes[start:] == old[1].bytes[start:]


async def test_members_do_not_change_while_one_lags() -> None:
    fuse = Fuse()
    old: list[Memory] = [Mortal(fuse) for _ in range(3)]
    form, _ = await made(old, 2)
    async with Mirror(old, 2, retry=600) as mirror:
        await mirror.open()
        old[1].broken = True
        await mirror.write(0, bytes([1]) * 4096)
        assert mirror.replicas[1].state is LegState.OUT
        epoch = mirror.epoch
    old[1].broken = False
    for places in ([0, 1], [1, 2], [0, 1, 2, -1]):
        new = [old[at] if at >= 0 else Mortal(fuse) for at in places]
        async with Mirror(new, 2) as mirror:
            with pytest.raises(ReplicationError, match="cannot change the mirror's replicas"):
                await mirror.reshape(form, epoch, places)
    async with Mirror([old[0], old[2]], 2, resync_rate=None) as mirror:  # the lost one goes
        await mirror.reshape(form, epoch, [0, 2])
        await check(mirror)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_replica_is_replaced_while_the_mirror_is_used(lost: bool) -> None:
    fuse = Fuse()
    old: list[Memory] = [Mortal(fuse) for _ in range(3)]
    await made(old, 2)
    async with Mirror(old, 2, retry=600, resync_rate=None) as mirror, asyncio.timeout(60):
        await mirror.open()
        if lost:
            old[0].broken = True
            await mirror.write(0, bytes([1]) * 4096)
        new = Mortal(fuse)
        replacing = asyncio.create_task(mirror.replace(0, new))
        while not replacing.done():
            await mirror.write(REGION, bytes([2]) * 4096)
            await check(mirror)
        await replacing
        await mirror.clean()
        await check(mirror)
        start = mirror.form.start
        assert new.bytes[start:] == old[1].bytes[start:] == old[2].bytes[start:]
    old[0].broken = False
    # The one that was replaced comes back: it is copied as a whole.
    async with Mirror(old, 2, resync_rate=None) as mirror, asyncio.timeout(60):
        await mirror.open()
        await check(mirror)
        await mirror.clean()


async def test_a_replacement_that_is_too_small() -> None:
    fuse = Fuse()
    old: list[Memory] = [Mortal(fuse) for _ in range(3)]
    await made(old, 2)
    small = Memory(SIZE // 2)
    async with Mirror(old, 2, retry=0.02, resync_rate=None) as mirror, asyncio.timeout(60):
        await mirror.open()
        with pytest.raises(ReplicationError, match=f"it has {SIZE // 2} bytes"):
            await mirror.replace(1, small)
        await mirror.clean()
        await check(mirror)
    assert not any(small.bytes)
