# SPDX-License-Identifier: BSD-3-Clause
"""Features of a subsystem with several paths, whose target goes away while paths are connected."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import FRIEND_NQN, SUBNQN
from wire.nvme import Admin

pytestmark = pytest.mark.usefixtures("need_client")
OPTIONS: dict[str, Any] = {
    "device": "iwarp", "queues": 1, "hostnqn": FRIEND_NQN, "ctrl_loss_tmo": -1.0,
    "reconnect_delay": 0.01, "io_timeout": 60.0, "connect_timeout": 60.0, "kato": 0.0,
}  # fmt: skip
PATHS = 7
FID = 2
_CMIC, _NMIC = 76, 30
_MULTI_CONTROLLER, _SHARED = 1 << 1, 1


def hang_up(connection: Connection) -> None:
    connection.peer.sock.shutdown(socket.SHUT_RDWR)


def several(capsule: bytes) -> bytes:
    """Identify of a subsystem that may have several controllers."""
    data = bytearray(identify(capsule))
    if capsule[40] == 1:
        data[_CMIC] |= _MULTI_CONTROLLER
    elif capsule[40] == 0:
        data[_NMIC] |= _SHARED
    return bytes(data)


async def test_a_target_goes_away_while_all_paths_get_a_feature(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """That is one loss of each path, and no reason to leave out the feature from then on."""
    from nvmf.initiator import State
    from nvmf.initiator.multipath import connect_multipath
    from support.multipathrig import until

    lock = threading.Lock()
    phase, waiting, given = "first", list[Connection](), 0

    def hook(connection: Connection, capsule: bytes) -> bool:
        nonlocal phase, given
        if connection.qid or capsule[0] != Admin.SET_FEATURES or capsule[40] != FID:
            return False
        with lock:
            if phase == "again":  # none is answered until all have it
                waiting.append(connection)
                if len(waiting) == PATHS:
                    phase = "good"
                    for one in waiting:
                        hang_up(one)
                return True
            given += phase == "good"
            return False

    with ExitStack() as stack:
        ports = [stack.enter_context(NvmeResponder(SUBNQN, several)) for _ in range(PATHS)]
        for port in ports:
            port.hook = hook
        urls = [f"nvme+rdma://127.0.0.1:{port.port}/{SUBNQN}" for port in ports]
        async with connect_multipath(urls, **OPTIONS) as subsystem, asyncio.timeout(60):
            await subsystem.set_features(FID, 1)
            phase = "again"
            for one in [one for port in ports for one in port.connections]:
                hang_up(one)
            await until(
                lambda: phase == "good" and all(p.state is State.LIVE for p in subsystem.paths)
            )
            await subsystem.namespace(1).flush()
    assert given == PATHS
    assert "no longer set" not in caplog.text
