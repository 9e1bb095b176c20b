# SPDX-License-Identifier: BSD-3-Clause
"""Callers that are cancelled while a target does not answer their commands."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import TYPE_CHECKING

import pytest

from support.responder import Connection, NvmeResponder
from support.spoiling import connected
from wire.nvme import Io

if TYPE_CHECKING:
    from nvmf.initiator import Controller

pytestmark = pytest.mark.usefixtures("need_client")
NOT_READY = 0x82
"""Namespace Not Ready, without Do Not Retry."""


async def until_sent(seen: Sized, count: int) -> None:
    """Wait until the target has received a number of commands."""
    async with asyncio.timeout(60):
        while len(seen) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("write", [False, True])
async def test_many(responder: NvmeResponder, write: bool) -> None:
    """The caller of read_many() or write_many() gets CancelledError, and its buffer back."""
    seen: list[bytes] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        lba = int.from_bytes(capsule[40:48], "little")
        if not connection.qid or capsule[0] not in (Io.READ, Io.WRITE) or lba != 5:
            return False
        seen.append(capsule)
        if len(seen) == 1:
            connection.complete(capsule, NOT_READY)
        return True  # the second has no answer

    responder.hook = hook
    buffer = bytearray(16 * 512)
    async with connected(responder) as controller:
        disk = controller.namespace(1)
        many = disk.write_many if write else disk.read_many
        work = asyncio.create_task(many(range(16), buffer))
        await until_sent(seen, 2)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        buffer.append(0)  # BufferError while it is registered


@pytest.mark.parametrize("viewed", [False, True])
async def test_registered_memory(responder: NvmeResponder, viewed: bool) -> None:
    """The with block of registered memory lets CancelledError pass, and frees it later."""
    seen: list[tuple[Connection, bytes]] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid and capsule[0] == Io.READ:
            seen.append((connection, capsule))
            return True
        if connection.qid and seen:  # on the connection's own thread
            connection.give(seen[0][1], bytes(512))
            connection.complete(seen.pop()[1])
        return False

    buffer = bytearray(512)

    async def read(controller: Controller) -> None:
        with controller.register(buffer) as memory:
            into = memoryview(memory) if viewed else memory
            await controller.namespace(1).readinto(0, into)

    responder.hook = hook
    async with connected(responder) as controller:
        work = asyncio.create_task(read(controller))
        await until_sent(seen, 1)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        del work
        with pytest.raises(BufferError):
            buffer.append(0)
        await controller.namespace(1).flush()  # and the read ends before it
        buffer.append(0)
