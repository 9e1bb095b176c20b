# SPDX-License-Identifier: BSD-3-Clause
"""The behaviour of a namespace with any backend: one suite for the client and for the kernel.

    python -m support.backends URL BACKEND        runs it against a target, in the lab's guest

Namespace 1 must exist, with at least 4 MiB, and its content is lost.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nvmf.initiator import (
    AnyController,
    AnyNamespace,
    ConnectionLost,
    NvmeError,
    State,
    connect,
)
from nvmf.initiator.base.options import Backend
from nvmf.spec.opcodes import Cns, FeatureId, LogId
from nvmf.spec.reservations import ReservationType
from nvmf.spec.status import Status

Check = Callable[[AnyController], Awaitable[None]]


async def what_it_is(controller: AnyController) -> None:
    assert controller.state is State.LIVE
    assert controller.queues >= 1
    assert controller.max_transfer >= 4096
    assert controller.identify.subnqn == controller.where.subnqn
    assert controller.version.major >= 1
    namespace = controller.namespaces[0]
    assert namespace.nsid == 1
    assert namespace.size == namespace.blocks * namespace.block_size >= 4 << 20
    assert namespace.info.nsze == namespace.blocks
    assert namespace.info.block_size == namespace.block_size


async def round_trip(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    size = namespace.block_size
    for length in (size, 4096, 3 * 4096, 1 << 20, (3 << 20) + 4096):
        data = secrets.token_bytes(length)
        await namespace.write(8, data)
        assert await namespace.read(8, length // size) == data, length
        into = bytearray(length)
        assert await namespace.readinto(8, into) == length
        assert into == data, length


async def side_by_side(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    size = namespace.block_size
    blocks = [secrets.token_bytes(size) for _ in range(200)]
    await asyncio.gather(*(namespace.write(lba, block) for lba, block in enumerate(blocks)))
    assert await asyncio.gather(*(namespace.read(lba, 1) for lba in range(200))) == blocks


async def memory_without_a_copy(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    data = secrets.token_bytes(1 << 16)
    with controller.alloc(1 << 16) as memory:
        with memoryview(memory) as view:
            view[:] = data
        await namespace.write(16, memory)
        with memoryview(memory) as view:
            view[:] = bytes(1 << 16)
        await namespace.readinto(16, memory)
        assert bytes(memory) == data
    own = bytearray(1 << 16)
    with controller.register(own) as memory:
        await namespace.readinto(16, memory)
    assert own == data


async def bytes_at_offsets(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    size = namespace.block_size
    data = secrets.token_bytes(1 << 20)
    assert await namespace.pwrite(data, 4 * size) == len(data)
    for n, skip in ((0, 0), (1, 0), (1, 7), (size, 0), (2 * size, size), (2 * size, 3)):
        assert await namespace.pread(n, 4 * size + skip) == data[skip : skip + n]
    for n, skip in ((600_000, size), (600_000, size - 1), (len(data), 0), (len(data) - 1, 1)):
        assert await namespace.pread(n, 4 * size + skip) == data[skip : skip + n], (n, skip)
        into = bytearray(n)
        assert await namespace.preadinto(into, 4 * size + skip) == n
        assert into == data[skip : skip + n], (n, skip)
    for lengths in ((size, 3 * size), (1, size, 7), (size, 0, 5)):
        buffers = [bytearray(length) for length in lengths]
        assert await namespace.preadv(buffers, 4 * size) == sum(lengths)
        assert b"".join(buffers) == data[: sum(lengths)]
    assert await namespace.pwritev([b"a" * size, b"b" * 2 * size], size) == 3 * size
    assert await namespace.pwritev([b"c", b"d" * (size - 2), b"e"], 0) == size
    assert await namespace.read(0, 4) == (
        b"c" + b"d" * (size - 2) + b"e" + b"a" * size + b"b" * 2 * size
    )
    for wrong in (
        namespace.pwrite(bytes(size), 1),
        namespace.pwrite(b"x", 0),
        namespace.pwritev([b"x", bytes(size)], 0),
    ):
        with pytest.raises(ValueError, match=f"whole blocks of {size} bytes"):
            await wrong
    assert await namespace.read(0, 1) == b"c" + b"d" * (size - 2) + b"e"


async def bytes_behind_the_end(controller: AnyController) -> None:
    """The error names the requested bytes."""
    namespace = controller.namespace(1)
    size, end = namespace.block_size, namespace.size
    for wrong, words in (
        (namespace.pread(1, end), f"pread of 1 byte at offset {end} "),
        (namespace.pread(10, end - 9), f"pread of 10 bytes at offset {end - 9} "),
        (namespace.pread(1 << 50, 0), f"pread of {1 << 50} bytes at offset 0 "),
        (namespace.preadinto(bytearray(2), end - 1), "preadinto of 2 bytes"),
        (namespace.preadv([bytearray(1)] * 2, end - 1), "preadv of 2 bytes"),
        (namespace.pwrite(bytes(2 * size), end - size), f"pwrite of {2 * size} bytes"),
        (namespace.pwritev([bytes(size)] * 2, end - size), f"pwritev of {2 * size} bytes"),
    ):
        error = await _refused(wrong)
        assert str(error).startswith(words), error
        assert f"was not sent: it has {end} bytes: LBA Out of Range" in str(error)
        assert (error.status, error.nsid) == (Status.LBA_OUT_OF_RANGE, 1)
    assert await namespace.pread(9, end - 9) == await namespace.pread(9, end - 9)
    blocks = namespace.blocks
    error = await _refused(namespace.read(1, 1 << 40))
    words = f"Read of {1 << 40} blocks at LBA 1 in namespace 1 was not sent: it has {blocks} blocks"
    assert str(error).startswith(words), error
    for nothing in (namespace.pread(-1, 0), namespace.pread(1, -1)):
        with pytest.raises(ValueError, match="invalid range"):
            await nothing


async def wrong_types(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    some: Any = "0"
    for wrong, words in (
        (namespace.read(some, 1), "lba is a whole number, not '0'"),
        (namespace.read(0, some), "blocks is a whole number, not '0'"),
        (namespace.write(some, bytes(namespace.block_size)), "lba is a whole number"),
        (namespace.pread(some, 0), "length is a whole number"),
        (namespace.pread(1, some), "offset is a whole number"),
        (namespace.write(0, some), "bytes-like object is required, not 'str'"),
        (namespace.compare_and_write(0, some, some), "bytes-like|sends no fused"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            await wrong
    with pytest.raises(TypeError, match="nsid is a whole number, not '1'"):
        controller.namespace("1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="length is a whole number, not '1'"):
        controller.alloc("1")  # type: ignore[arg-type]


async def closed_buffers(controller: AnyController) -> None:
    """A transfer of no bytes is an error."""
    namespace = controller.namespace(1)
    memory = controller.alloc(4096)
    memory.close()
    with controller.register(bytearray(4096)) as borrowed:
        pass
    view = memoryview(bytearray(4096))
    view.release()
    for buffer in (memory, borrowed, view):
        for wrong in (
            namespace.write(0, buffer),
            namespace.readinto(0, buffer),
            namespace.compare(0, buffer),
            namespace.pwrite(buffer, 0),
            namespace.preadinto(buffer, 0),
            namespace.preadv([bytearray(1), buffer], 0),
            namespace.pwritev([bytes(4096), buffer], 0),
            namespace.compare_and_write(0, buffer, buffer),
        ):
            with pytest.raises(ValueError, match=r"closed|released|sends no fused"):
                await wrong
        with pytest.raises(ValueError, match=r"closed|released"):
            controller.register(buffer)


async def stable_writes(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    data = secrets.token_bytes(1 << 18)
    await namespace.write(0, data, fua=True)
    await namespace.flush()
    assert await namespace.read(0, (1 << 18) // namespace.block_size, fua=True) == data


async def comparing(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    if not controller.identify.oncs & 1:
        return
    size = namespace.block_size
    data = secrets.token_bytes(1 << 18)
    await namespace.write(0, data)
    await namespace.compare(0, data)
    error = await _refused(namespace.compare(0, bytes(size)))
    assert error.status == Status.COMPARE_FAILURE
    assert "Compare Failure" in str(error), error


async def zeroes(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    size = namespace.block_size
    if controller.identify.oncs & 8:
        data = secrets.token_bytes(64 * size)
        await namespace.write(0, data)
        await namespace.write_zeroes(8, 8)
        await namespace.write_zeroes(24, 8, fua=True)
        assert await namespace.read(8, 8) == bytes(8 * size)
        assert await namespace.read(24, 8) == bytes(8 * size)
        assert await namespace.read(0, 8) == data[: 8 * size]
        assert await namespace.read(16, 8) == data[16 * size : 24 * size]
        await namespace.write_zeroes(32, 8, deallocate=True)
        assert await namespace.read(32, 8) == bytes(8 * size)
        assert await namespace.read(40, 24) == data[40 * size :]
    if controller.identify.oncs & 4:
        await namespace.deallocate([(8, 8), (64, 64)])


async def copying(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    if not controller.identify.oncs & 0x100:
        return
    size = namespace.block_size
    data = secrets.token_bytes(64 * size)
    await namespace.write(0, data)
    await namespace.copy(100, [(32, 8), (3, 1)])
    assert await namespace.read(100, 9) == data[32 * size : 40 * size] + data[3 * size : 4 * size]
    with pytest.raises(ValueError, match="overlap the destination"):
        await namespace.copy(0, [(7, 8), (3, 1)])


async def reserving(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    if not namespace.info.rescap:
        return
    mine = namespace.reservations
    await mine.register(0xA)
    await mine.acquire(0xA, ReservationType.WRITE_EXCLUSIVE)
    found = await mine.report()
    assert found.rtype == ReservationType.WRITE_EXCLUSIVE
    assert {one.rkey for one in found.registrants} == {0xA}
    error = await _refused(mine.release(0xB, ReservationType.WRITE_EXCLUSIVE))
    assert error.status == Status.RESERVATION_CONFLICT
    await mine.preempt(0xA, ReservationType.EXCLUSIVE_ACCESS, 0xA, abort=True)
    await mine.release(0xA, ReservationType.EXCLUSIVE_ACCESS)
    await mine.unregister(0xA)
    await mine.register(0xC, persist=False)
    await mine.clear(0xC)
    assert not (await mine.report()).registrants


async def nothing_to_do(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    assert await namespace.read(0, 0) == b""
    await namespace.write(0, b"")
    await namespace.write_zeroes(0, 0)
    await namespace.deallocate([])


async def behind_the_end(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    size, end = namespace.block_size, namespace.blocks
    await namespace.write(0, b"\1" * size)
    for wrong in (
        namespace.read(end, 1),
        namespace.read(end - 1, 2),
        namespace.write(end, bytes(size)),
        namespace.write_zeroes(0, end + 1),
        namespace.deallocate([(0, 1), (end, 1)]),
    ):
        error = await _refused(wrong)
        assert error.status == Status.LBA_OUT_OF_RANGE, error
        assert error.nsid in (1, None)
    assert await namespace.read(0, 1) == b"\1" * size


async def wrong_arguments(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    for wrong, words in (
        (namespace.write(0, b"x"), "not whole blocks"),
        (namespace.read(-1, 1), "invalid range"),
        (namespace.readinto(0, bytes(namespace.block_size)), "writable"),
    ):
        with pytest.raises(ValueError, match=words):
            await wrong
    with pytest.raises(NvmeError) as raised:
        controller.namespace(4000)
    assert raised.value.status == Status.INVALID_NAMESPACE_OR_FORMAT


async def admin(controller: AnyController) -> None:
    assert len(await controller.log_page(LogId.SMART, 512)) == 512
    data = await controller.identify_data(Cns.CONTROLLER)
    assert len(data) == 4096
    await controller.get_features(FeatureId.NUMBER_OF_QUEUES)
    error = await _refused(controller.log_page(0xC5, 512))
    assert error.status in (Status.INVALID_LOG_PAGE, Status.INVALID_FIELD), error
    await controller.refresh()
    assert controller.namespaces[0].nsid == 1


async def cancelled(controller: AnyController) -> None:
    namespace = controller.namespace(1)
    data = secrets.token_bytes(1 << 20)
    for _ in range(5):
        moving = asyncio.ensure_future(namespace.write(0, bytes(1 << 20)))
        await asyncio.sleep(0)
        moving.cancel()
        await asyncio.wait({moving})
    await namespace.write(0, data)
    assert await namespace.read(0, len(data) // namespace.block_size) == data


async def closed(controller: AnyController) -> None:
    """The last check: it closes the controller."""
    namespace: AnyNamespace = controller.namespace(1)
    await controller.close()
    await controller.close()
    assert controller.state is State.CLOSED
    with pytest.raises(ConnectionLost, match="closed"):
        await namespace.read(0, 1)


async def _refused(work: Awaitable[object]) -> NvmeError:
    with pytest.raises(NvmeError) as raised:
        await work
    return raised.value


CHECKS: tuple[Check, ...] = (
    what_it_is,
    round_trip,
    side_by_side,
    memory_without_a_copy,
    bytes_at_offsets,
    bytes_behind_the_end,
    wrong_types,
    closed_buffers,
    stable_writes,
    comparing,
    zeroes,
    copying,
    reserving,
    nothing_to_do,
    behind_the_end,
    wrong_arguments,
    admin,
    cancelled,
    closed,
)


async def main(url: str, backend: Backend) -> None:
    """Run all checks on one connection."""
    async with connect(url, backend=backend) as controller:
        for check in CHECKS:
            await check(controller)
            print(f"passed {check.__name__}", flush=True)


if __name__ == "__main__":
    chosen: Backend = "kernel" if sys.argv[2] == "kernel" else "client"
    asyncio.run(main(sys.argv[1], chosen))
