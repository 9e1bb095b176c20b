# SPDX-License-Identifier: BSD-3-Clause
"""A served target in this process, for tests of the client; wire.served has one in another."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nvmf.config import loads
from nvmf.target.server import Server

NQN = "nqn.2014-08.org.example:client"

RAM = 'store = "ram"\nsize = "8MiB"\nblock_size = 512'
RAM_4K = 'store = "ram"\nsize = "8MiB"\nblock_size = 4096'


def config(*namespaces: str, port: int = 0, extra: str = "") -> str:
    """One subsystem for anybody; extra goes into it."""
    text = f'[[port]]\ntrsvcid = {port}\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n{extra}\n'
    for namespace in namespaces:
        text += f"[[subsystem.namespace]]\n{namespace}\n"
    return text


@asynccontextmanager
async def serving(*namespaces: str, extra: str = "") -> AsyncIterator[tuple[Server, str]]:
    """A server on this loop, and the URL of its subsystem."""
    server = Server(loads(config(*namespaces, extra=extra)))
    await server.start()
    try:
        yield server, url(server.ports[0].address[1])
    finally:
        await server.stop()


def url(port: int, nqn: str = NQN) -> str:
    """Of a subsystem on this machine."""
    return f"nvme+rdma://127.0.0.1:{port}/{nqn}"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


OPTIONS: dict[str, Any] = {"device": "iwarp", "queues": 1}
"""Of connections that need nothing special."""
