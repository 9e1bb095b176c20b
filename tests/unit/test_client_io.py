# SPDX-License-Identifier: BSD-3-Clause
"""The client and the target on the embedded device: every command, with real bytes."""

from __future__ import annotations

import array
import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from nvmf.initiator import (
    ConnectError,
    ConnectionLost,
    Controller,
    Namespace,
    NvmeError,
    State,
    connect,
    discover,
)
from nvmf.initiator.base.copying import copy_blocks
from nvmf.initiator.base.limits import LARGEST
from nvmf.spec.features import EventType, Notice
from nvmf.spec.identify import Oncs
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import FeatureId, LogId
from nvmf.spec.status import Status
from nvmf.target.change import edit
from nvmf.target.service.server import Server
from support.clientlab import NQN, OPTIONS, url


@pytest.fixture
async def controller(served: tuple[Server, str]) -> AsyncIterator[Controller]:
    async with connect(served[1], **{**OPTIONS, "queues": 2}) as found:
        yield found


@pytest.fixture
def small(controller: Controller) -> Namespace:
    """A namespace with blocks of 512 bytes."""
    return controller.namespace(1)


@pytest.mark.feature("formats")
async def test_what_it_is(controller: Controller) -> None:
    assert controller.state is State.LIVE
    assert controller.device == "iwarp"
    assert controller.queues == 2
    assert controller.max_transfer == 1 << 20
    assert controller.identify.subnqn == NQN
    assert [(n.nsid, n.blocks, n.block_size, n.size) for n in controller.namespaces] == [
        (1, 16384, 512, 8 << 20),
        (2, 2048, 4096, 8 << 20),
    ]
    assert controller.namespace(1).ids.uuid


@pytest.mark.feature("keyed-sgl", "in-capsule")
@pytest.mark.parametrize("length", [512, 4096, 4608, LARGEST, LARGEST + 512, (3 << 20) + 512])
async def test_round_trip(small: Namespace, length: int) -> None:
    """Transfers through the pool: in the capsule, in one command, and in many."""
    data = secrets.token_bytes(length)
    await small.write(7, data)
    assert await small.read(7, length // 512) == data
    into = bytearray(length)
    assert await small.readinto(7, into) == length
    assert into == data
    assert await small.read(0, 7) == bytes(7 * 512)
    assert await small.read(7 + length // 512, 1) == bytes(512)


@pytest.mark.parametrize("in_capsule", [True, False])
@pytest.mark.parametrize("disable_sqflow", [True, False])
async def test_ways_to_connect(
    served: tuple[Server, str], in_capsule: bool, disable_sqflow: bool
) -> None:
    options = {**OPTIONS, "queue_depth": 4}
    async with connect(
        served[1], **options, in_capsule=in_capsule, disable_sqflow=disable_sqflow
    ) as controller:
        namespace = controller.namespace(1)
        blocks = [secrets.token_bytes(512) for _ in range(200)]
        await asyncio.gather(*(namespace.write(lba, b) for lba, b in enumerate(blocks)))
        assert await asyncio.gather(*(namespace.read(lba, 1) for lba in range(200))) == blocks


@pytest.mark.parametrize("length", [512, 1 << 20, 5 << 19])
async def test_registered_memory(controller: Controller, small: Namespace, length: int) -> None:
    """Transfers without a copy: registered memory, a slice of it, and a buffer of the caller."""
    with (
        controller.alloc(length + 4096) as memory,
        memoryview(memory) as whole,
        whole[1024 : 1024 + length] as part,
    ):
        part[:] = secrets.token_bytes(length)
        data = bytes(part)
        await small.write(3, part)
        part[:] = bytes(length)
        await small.readinto(3, part)
        assert part == data
        assert bytes(whole[:1024]) == bytes(1024)
    own = bytearray(data)
    with controller.register(own) as memory:
        await small.write(3 + length // 512, memory)
        own[:] = bytes(length)
        await small.readinto(3 + length // 512, memory)
    assert own == data


async def test_bytes_of_registered_memory(controller: Controller, small: Namespace) -> None:
    """The transfer uses no buffer of the pool, except for partial blocks."""
    data = secrets.token_bytes(2 << 20)
    await small.write(0, data)
    with controller.alloc(1 << 20) as memory:
        before = controller._pool.waited
        with mock.patch.object(controller._pool, "take") as taken:
            await small.preadinto(memory, 512)
            assert bytes(memory) == data[512 : 512 + (1 << 20)]
            await small.pwrite(memory, 0)
            await small.pwritev([memory, memory], 1 << 20)
            assert not taken.called
        assert await small.pread(3 << 20, 0) == (bytes(memory) * 3)
        await small.preadinto(memory, 3)
        assert bytes(memory)[:-3] == data[515 : 512 + (1 << 20)]
        assert controller._pool.waited == before


async def test_a_number_of_a_fixed_width(small: Namespace) -> None:
    """The number is converted to a Python int first: a NumPy integer would overflow."""

    class Index:
        def __index__(self) -> int:
            return 3

    index: Any = Index()
    await small.write(index, b"3" * 512)
    assert await small.read(index, 1) == await small.pread(512, 1536) == b"3" * 512
    assert await small.pread(index, index) == bytes(3)


async def test_buffers_of_other_types(small: Namespace) -> None:
    numbers = array.array("I", range(256))
    await small.write(0, numbers)
    back = array.array("I", bytes(1024))
    await small.readinto(0, back)
    assert back == numbers


async def test_memory_in_flight_cannot_be_closed(controller: Controller, small: Namespace) -> None:
    memory = controller.alloc(1 << 20)
    moving = asyncio.create_task(small.write(0, memory))
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="commands move data"):
        memory.close()
    await moving
    memory.close()


@pytest.mark.feature("write-zeroes", "deallocate", "compare", "verify")
async def test_other_commands(small: Namespace) -> None:
    data = secrets.token_bytes(64 * 512)
    await small.write(0, data, fua=True)
    await small.flush()
    await small.compare(0, data)
    await small.verify(0, 16384)
    await small.write_zeroes(1, 2)
    await small.write_zeroes(4, 1, deallocate=True)
    await small.deallocate([(8, 1), (10, 2)])
    assert await small.read(1, 2) == bytes(1024)
    assert await small.read(4, 1) == bytes(512)
    assert await small.read(3, 1) == data[3 * 512 : 4 * 512]
    await small.write_zeroes(0, 16384)
    assert await small.read(0, 16384) == bytes(8 << 20)
    await small.deallocate((lba, 1) for lba in range(0, 1000, 2))


@pytest.mark.feature("copy")
async def test_copy(controller: Controller, small: Namespace) -> None:
    """More than one command's worth of ranges, and of blocks; with blocks of 4096 bytes, too."""
    data = secrets.token_bytes(3000 * 512)
    await small.write(0, data)
    ranges = [(lba, 3) for lba in range(0, 600, 4)]
    await small.copy(8000, ranges, fua=True)
    assert await small.read(8000, 450) == b"".join(
        data[512 * lba : 512 * (lba + n)] for lba, n in ranges
    )
    await small.copy(9000, [(1, 2999), (7, 0), (9001, 0)])
    assert await small.read(9000, 2999) == data[512:]
    large = controller.namespace(2)
    await large.write(0, data[: 300 * 4096])
    await large.copy(1000, [(0, 300)])
    assert await large.read(1000, 300) == data[: 300 * 4096]
    with pytest.raises(ValueError, match="overlap the destination"):
        await small.copy(10, [(0, 4), (15, 4)])
    with pytest.raises(NvmeError, match="LBA Out of Range"):
        await small.copy(0, [(16383, 2)])
    with pytest.raises(NvmeError, match="LBA Out of Range"):
        await small.copy(16383, [(0, 2)])


async def test_copy_of_a_controller_without_it(small: Namespace) -> None:
    with pytest.raises(ValueError, match="does not support Copy"):
        await copy_blocks(small, Oncs.COMPARE, 0, [(8, 1)], False)


async def test_nothing_to_do(small: Namespace) -> None:
    assert await small.read(0, 0) == b""
    await small.write(0, b"")
    await small.write_zeroes(0, 0)
    await small.deallocate([])
    await small.copy(0, [])


@pytest.mark.feature("compare")
async def test_compare_failure(small: Namespace) -> None:
    with pytest.raises(NvmeError, match=r"Compare of 1 block at LBA 5 .*Compare Failure") as raised:
        await small.compare(5, b"x" * 512)
    assert raised.value.status == Status.COMPARE_FAILURE
    assert (raised.value.nsid, raised.value.lba, raised.value.blocks) == (1, 5, 1)


@pytest.mark.parametrize(("lba", "blocks"), [(16384, 1), (16383, 2), (1 << 63, 1), (16000, 4000)])
async def test_out_of_range(small: Namespace, lba: int, blocks: int) -> None:
    with pytest.raises(NvmeError, match=r"LBA Out of Range.*see id-ns") as raised:
        await small.read(lba, blocks)
    assert raised.value.dnr
    with pytest.raises(NvmeError, match=r"Write of .* LBA Out of Range"):
        await small.write(lba, bytes(512 * blocks))
    assert await small.read(0, 1) == bytes(512), "the queue continues"


async def test_nothing_is_done_of_what_goes_behind_the_end(small: Namespace) -> None:
    """No command is sent, although all of them except the last could be executed."""
    data = secrets.token_bytes(small.size)
    await small.write(0, data)
    for wrong in (
        small.write_zeroes(0, small.blocks + 1),
        small.write(0, bytes(small.size + 512)),
        small.deallocate([(lba, 1) for lba in range(300)] + [(small.blocks, 1)]),
    ):
        with pytest.raises(NvmeError, match="LBA Out of Range"):
            await wrong
    assert await small.read(0, small.blocks) == data


async def test_a_namespace_that_grew_unnoticed(small: Namespace) -> None:
    small.info = replace(small.info, nsze=10)
    data = secrets.token_bytes(3 << 20)
    await small.write(0, data)
    assert await small.read(0, len(data) // 512) == data


async def test_wrong_arguments(controller: Controller, small: Namespace) -> None:
    with pytest.raises(ValueError, match="not whole blocks of 512"):
        await small.write(0, b"x")
    with pytest.raises(ValueError, match="invalid range"):
        await small.read(-1, 1)
    with pytest.raises(ValueError, match="writable"):
        await small.readinto(0, bytes(512))
    for key in (-1, 1 << 64):
        with pytest.raises(ValueError, match=f"has 64 bits: {key} does not fit"):
            await small.reservations.register(key)
    with pytest.raises(NvmeError, match=r"namespace 9 .*Invalid Namespace.*list-ns"):
        controller.namespace(9)
    for length in (-1, 0, 1 << 63, 1 << 70):
        with pytest.raises(ValueError, match=f"memory to allocate has 1 to .* not {length}"):
            controller.alloc(length)
    with pytest.raises(ValueError, match="no option 'speed'"):
        connect(url(1) + "?speed=3")


async def test_cancel(controller: Controller, small: Namespace) -> None:
    """A cancelled transfer leaves the queue and the pool in order, and its commands end."""
    for delay in range(40):
        moving = asyncio.create_task(small.write(0, bytes(2 << 20)))
        for _ in range(delay):
            await asyncio.sleep(0)
        moving.cancel()
        await asyncio.wait({moving})
    async with asyncio.timeout(60):  # they may overwrite data until they end
        while any(queue.outstanding for queue in controller.session.queues):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    data = secrets.token_bytes(2 << 20)
    await asyncio.gather(*(small.write(4096 * i, data) for i in range(4)))
    assert await small.read(0, 16384) == data * 4


async def test_many_at_once(controller: Controller) -> None:
    """More commands than the queues have entries and the pool has buffers."""
    namespace = controller.namespace(2)
    data = [secrets.token_bytes(4096) for _ in range(2048)]
    await asyncio.gather(*(namespace.write(lba, block) for lba, block in enumerate(data)))
    found = await asyncio.gather(*(namespace.read(lba, 1) for lba in range(2048)))
    assert found == data
    queues = controller.session.queues
    assert min(queue.completed for queue in queues) > 1000, "in turn"


async def test_admin(controller: Controller) -> None:
    assert await controller.get_features(FeatureId.KEEP_ALIVE_TIMER) == 5000
    assert len(await controller.log_page(LogId.SMART, 512)) == 512
    with pytest.raises(NvmeError, match=r"Get Log Page \(LID C0h\) failed: Invalid Log Page"):
        await controller.log_page(0xC0, 512)
    with pytest.raises(NvmeError, match="Identify"):
        await controller.identify_data(0xEE)
    await controller.refresh()


@pytest.mark.feature("live", "events")
async def test_namespace_goes(served: tuple[Server, str], controller: Controller) -> None:
    """The target removes a namespace: an event, and the list is updated."""
    seen: list[tuple[int, int]] = []
    came = asyncio.Event()

    def event(found: object) -> None:
        seen.append((found.type, found.info))  # type: ignore[attr-defined]
        came.set()

    controller.on_event(event)
    server, _ = served
    await server.edit(lambda config: edit.remove_namespace(config, NQN, 2))
    async with asyncio.timeout(60):
        await came.wait()
    assert seen == [(EventType.NOTICE, Notice.NAMESPACE_ATTRIBUTE_CHANGED)]
    assert [n.nsid for n in controller.namespaces] == [1]


async def test_discover(served: tuple[Server, str]) -> None:
    current, entry = await discover(served[1], device="iwarp")
    assert (current.subtype, current.subnqn, current.eflags) == (3, DISCOVERY_NQN, 3)
    assert (entry.subnqn, entry.traddr) == (NQN, "127.0.0.1")
    assert entry.trsvcid == str(served[0].ports[0].address[1])
    async with connect(url(int(entry.trsvcid), DISCOVERY_NQN), device="iwarp") as controller:
        assert controller.namespaces == []
        assert controller.queues == 0


async def test_refused(served: tuple[Server, str]) -> None:
    with pytest.raises(NvmeError, match=r"Connect to nqn.*SUBNQN.*try discover"):
        await connect(served[1] + "x", **OPTIONS)
    with pytest.raises(ConnectError, match="refused: no target listens there"):
        await connect(url(1), **OPTIONS)


async def test_closed(served: tuple[Server, str]) -> None:
    controller = await connect(served[1], **OPTIONS)
    namespace = controller.namespace(1)
    waiting = [asyncio.create_task(namespace.read(0, 16384)) for _ in range(8)]
    await asyncio.sleep(0)
    await controller.close()
    assert controller.state is State.CLOSED
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, bytes | ConnectionLost)
    with pytest.raises(ConnectionLost, match="the controller was closed"):
        await namespace.read(0, 1)


async def test_cancelled_connect(served: tuple[Server, str]) -> None:
    """A connect that is cancelled at any moment leaves nothing open."""
    for delay in range(30):
        connecting = asyncio.ensure_future(_open(served[1]))
        await asyncio.sleep(delay / 4000)
        connecting.cancel()
        await asyncio.wait({connecting})
    async with connect(served[1], **OPTIONS) as controller:
        assert len(await controller.namespace(1).read(0, 1)) == 512


async def _open(where: str) -> None:
    async with connect(where, **OPTIONS):
        pass
