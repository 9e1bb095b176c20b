# SPDX-License-Identifier: BSD-3-Clause
"""Our client, connected to a target that a test modifies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from support.responder import Connection, NvmeResponder
from support.served import FRIEND_NQN, SUBNQN
from wire.rdmap import Terminate

if TYPE_CHECKING:
    from nvmf.initiator import Controller

CAP = 0x0000_0020_0F01_007F
"""Capabilities of the target."""


@asynccontextmanager
async def connected(
    responder: NvmeResponder, *, io_timeout: float = 60.0, **options: Any
) -> AsyncIterator[Controller]:
    """Our client, connected to it; it does not reconnect."""
    from nvmf.initiator import connect

    url = f"nvme+rdma://127.0.0.1:{responder.port}/{SUBNQN}"
    async with connect(
        url, device="iwarp", queues=1, hostnqn=FRIEND_NQN, ctrl_loss_tmo=0.0,
        io_timeout=io_timeout, connect_timeout=60.0, kato=0.0, **options,
    ) as one:  # fmt: skip
        yield one


async def good(controller: Controller) -> None:
    disk = controller.namespace(1)
    await disk.write(3, b"3" * 5120)
    assert await disk.read(3, 10) == b"3" * 5120


async def ended(connection: Connection) -> Terminate | None:
    """Return the Terminate that the client sent."""
    for _ in range(3000):
        if connection.ended is not None:
            return connection.ended
        await asyncio.sleep(0.02)
    return None
