# SPDX-License-Identifier: BSD-3-Clause
"""A served target in this process, for tests of the client; support.served has one in its own
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from nvmf.config import loads
from nvmf.initiator import NvmeError
from nvmf.target.lasting.state import write_atomically
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve

NQN = "nqn.2014-08.org.example:client"

RAM = 'store = "ram"\nsize = "8MiB"\nblock_size = 512'
RAM_4K = 'store = "ram"\nsize = "8MiB"\nblock_size = 4096'


def config(*namespaces: str, port: int = 0, extra: str = "") -> str:
    """Return a configuration with one subsystem for any host; extra is added to it."""
    text = f'[iwarp]\nhandshake_timeout_ms = 60000\n[[port]]\ntrsvcid = {port}\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n{extra}\n'
    for namespace in namespaces:
        text += f"[[subsystem.namespace]]\n{namespace}\n"
    return text


@asynccontextmanager
async def serving(*namespaces: str, extra: str = "") -> AsyncIterator[tuple[Server, str]]:
    """Yield a server on this loop, and the URL of its subsystem."""
    server = await serve(loads(config(*namespaces, extra=extra)))
    try:
        yield server, url(server.ports[0].address[1])
    finally:
        await server.stop()


@asynccontextmanager
async def serving_at(
    state: Path | None, *namespaces: str, extra: str = ""
) -> AsyncIterator[tuple[Server, str]]:
    """The same with a state folder, which may be that of an earlier target."""
    text = config(*namespaces, extra=extra)
    if state is not None:
        text = f"[target]\nstate_dir = {json.dumps(str(state))}\n{text}"
    server = await serve(loads(text))
    try:
        yield server, url(server.ports[0].address[1])
    finally:
        await server.stop()


async def status_of(action: Awaitable[object]) -> int:
    """Return the status with which a command fails, without DNR."""
    try:
        await action
    except NvmeError as error:
        return error.status
    raise AssertionError("it has not failed")


def url(port: int, nqn: str = NQN) -> str:
    """Return the URL of a subsystem on this machine."""
    return f"nvme+rdma://127.0.0.1:{port}/{nqn}"


def free_port() -> int:
    """Return an unused port, for a target that ends and returns.

    The kernel does not use it for outgoing connections: otherwise one of them, even a client's
    own connection to the target, might get it while the target is away.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(5000, first), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port of 100 is free")


class SlowDisk:
    """Blocks the state files: no state of a namespace is written until go is set."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self, path: Path, data: bytes) -> None:
        self.began.set()
        assert self.go.wait(60)
        write_atomically(path, data)

    async def reached(self) -> None:
        """Wait until a write has begun."""
        assert await asyncio.to_thread(self.began.wait, 60)


@contextlib.contextmanager
def slow_disk() -> Iterator[SlowDisk]:
    """Targets in this process have a slow disk."""
    disk = SlowDisk()
    with mock.patch("nvmf.target.lasting.namespacefiles.write_atomically", disk):
        yield disk


OPTIONS: dict[str, Any] = {"device": "iwarp", "queues": 1, "connect_timeout": 60.0}
"""Options of connections without special requirements."""
