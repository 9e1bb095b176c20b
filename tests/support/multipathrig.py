# SPDX-License-Identifier: BSD-3-Clause
"""Two ports of one target, loads on them, and waits for tests of the client's multipath."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from nvmf.config import loads
from nvmf.initiator import State
from nvmf.initiator.multipath import MultipathNamespace, Subsystem
from nvmf.spec.ana import AnaState
from nvmf.target.change.edit import remove_port, set_ana
from nvmf.target.command.gates import Gate, GateReason
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support.clientlab import NQN, OPTIONS, RAM_4K, url
from support.relay import free_ports

STEADY: dict[str, Any] = {**OPTIONS, "kato": 0}
"""Options: no timeout ends a connection if the machine stalls for a while."""
FAST: dict[str, Any] = {**STEADY, "reconnect_delay": 0.2}
HANG = 120.0
"""Seconds after which a wait counts as a hang."""


@dataclass
class Lab:
    """A target in this process with two ports."""

    server: Server
    services: list[int]

    @property
    def urls(self) -> list[str]:
        return [url(service) for service in self.services]

    async def ana(self, index: int, state: str, group: int = 1) -> None:
        """Set the ANA state of a port for the namespaces."""
        service = self.services[index]
        await self.server.apply(set_ana(self.server.config, "127.0.0.1", service, group, state))

    async def remove(self, index: int) -> None:
        """Close a port."""
        service = self.services[index]
        await self.server.apply(remove_port(self.server.config, "127.0.0.1", service))

    def refuse(self, index: int, status: int) -> None:
        """Make every I/O command on a port end with a status; 0: execute them."""
        (port,) = [p for p in self.server.core.ports if p.trsvcid == self.services[index]]
        for controller in self.server.core.controllers():
            if controller.portid == port.portid:
                controller.gates.set(1, GateReason.MASKED, Gate(status, status, status))


@asynccontextmanager
async def two_ports(*namespaces: str) -> AsyncIterator[Lab]:
    services = free_ports(2)
    text = "[iwarp]\nhandshake_timeout_ms = 60000\n"
    for service in services:
        text += f'[[port]]\ntraddr = "127.0.0.1"\ntrsvcid = {service}\ndevice = "iwarp"\n'
    text += f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
    for namespace in namespaces or (RAM_4K,):
        text += f"[[subsystem.namespace]]\n{namespace}\n"
    server = await serve(loads(text))
    try:
        yield Lab(server, services)
    finally:
        await server.stop()


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def counts(subsystem: Subsystem) -> list[int]:
    """Return the number of commands of each path."""
    return [path.commands for path in subsystem.paths]


async def knows(subsystem: Subsystem, index: int, state: AnaState) -> None:
    """Wait until the client knows an ANA state."""
    path = subsystem.paths[index]
    await until(lambda: path.state is State.LIVE and path.ana(1) is state)


@asynccontextmanager
async def verified_load(namespace: MultipathNamespace) -> AsyncIterator[list[int]]:
    """Eight workers write, flush and read; at the end all data is checked.  Yields the progress."""
    blocks: dict[int, bytes] = {}
    progress = [0] * 8
    enough = asyncio.Event()

    async def work(worker: int) -> None:
        while not enough.is_set():
            lba = worker * 100 + progress[worker] % 50 * 2
            data = secrets.token_bytes(8192)
            await namespace.write(lba, data)
            blocks[lba] = data
            await namespace.flush()
            assert await namespace.read(lba, 2) == data
            await namespace.compare(lba, data)
            progress[worker] += 1

    workers = [asyncio.create_task(work(worker)) for worker in range(8)]
    try:
        yield progress
        before = list(progress)
        await until(
            lambda: (
                any(worker.done() for worker in workers)
                or all(now > then for now, then in zip(progress, before, strict=True))
            )
        )
    finally:
        enough.set()
        results = await asyncio.gather(*workers, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    for lba, data in blocks.items():
        assert await namespace.read(lba, 2) == data
