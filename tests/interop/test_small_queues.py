# SPDX-License-Identifier: BSD-3-Clause
"""Queues that are full, or have room for few commands."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import FRIEND_NQN, SUBNQN, TIMEOUT
from wire.nvme import Admin, cm_accept

if TYPE_CHECKING:
    from nvmf.initiator import Controller
    from nvmf.initiator.base.pending import Pending

pytestmark = pytest.mark.usefixtures("need_client")
OPTIONS: dict[str, Any] = {
    "device": "iwarp", "queues": 1, "hostnqn": FRIEND_NQN, "ctrl_loss_tmo": 0.0,
    "io_timeout": 60.0, "connect_timeout": 60.0, "kato": 0.0,
}  # fmt: skip


def client(responder: NvmeResponder, **changes: Any) -> Pending[Controller]:
    from nvmf.initiator import connect

    return connect(f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}", **{**OPTIONS, **changes})


async def test_keep_alive_is_not_in_line(responder: NvmeResponder) -> None:
    """It is sent while more admin commands are in line than the queue has entries."""
    loop, full, sent = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    held: list[tuple[Connection, bytes]] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if connection.qid:
            return False
        if capsule[0] == Admin.KEEP_ALIVE and held:
            loop.call_soon_threadsafe(sent.set)
        if capsule[0] != Admin.GET_FEATURES:
            return False
        held.append((connection, capsule))
        loop.call_soon_threadsafe(full.set)
        return True

    responder.hook = hook
    async with client(responder, kato=4.0) as one, asyncio.timeout(TIMEOUT):
        asked = [asyncio.create_task(one.get_features(7)) for _ in range(64)]
        await full.wait()
        await sent.wait()
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize(("maxcmd", "crqsize"), [(1, 0), (2, 0), (3, 0), (128, 1), (128, 2)])
async def test_compare_and_write(responder: NvmeResponder, maxcmd: int, crqsize: int) -> None:
    """Two fused commands are sent together, or refused where one command at a time is allowed."""
    first: list[bytes] = []

    def told(capsule: bytes) -> bytes:
        data = bytearray(identify(capsule))
        if capsule[40] == 1:
            struct.pack_into("<H", data, 514, maxcmd)
            struct.pack_into("<H", data, 522, 1)  # FUSES
        return bytes(data)

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or not capsule[1] & 3:
            return False
        first.append(capsule)
        if len(first) == 2:
            for one in first:
                connection.complete(one)
        return True

    def accept(depth: int) -> bytes:  # the admin queue has 32 entries
        return cm_accept(crqsize if crqsize and depth > 32 else depth)

    responder.identify, responder.hook, responder.accept = told, hook, accept
    async with client(responder) as one, asyncio.timeout(TIMEOUT):
        work = one.namespace(1).compare_and_write(0, bytes(512), bytes(512))
        if 1 in (maxcmd, crqsize):
            with pytest.raises(ValueError, match="needs a queue for two"):
                await work
            assert not first
        else:
            await work
            assert len(first) == 2
