# SPDX-License-Identifier: BSD-3-Clause
"""A server whose files and RDMA devices a test adds and removes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nvmf.config import loads
from nvmf.rdma.hotplug import DeviceEvent
from nvmf.spec.cm import CmRequest
from nvmf.target.change.hotplug import Surroundings
from nvmf.target.service.starting import serve
from support.fakeengine import (
    ConnectRequest,
    FakeEngine,
    Qpair,
    Readable,
)
from support.served_lab import ServedLab

NQN = "nqn.2026-11.io.example:a"
PATIENCE = 60.0
"""Seconds: ends a hang."""


class Monitor(Readable):
    """Events created by a test."""

    def events(self) -> list[DeviceEvent]:
        found: list[DeviceEvent] = self.take()
        return found

    def tell(self, action: str = "add", subsystem: str = "block") -> None:
        self.put(DeviceEvent(action, subsystem, "sdx", "/dev/sdx"))


class Lab(ServedLab):
    """A server on the fake engine, and a machine whose devices are added and removed."""

    def __init__(self, text: str, devices: tuple[str, ...] = ()) -> None:
        self.engine = FakeEngine()
        self.monitor = Monitor()
        self.rdma: frozenset[str] = frozenset()
        self.looked = False
        self.plug(*devices)
        surroundings = Surroundings(lambda: self.monitor, self._look)
        super().__init__(serve(loads(text), engine=self.engine, surroundings=surroundings))

    def _look(self) -> frozenset[str]:
        self.looked = True
        return self.rdma

    def plug(self, *names: str) -> None:
        """Set the present RDMA devices."""
        self.rdma = frozenset(names)
        self.engine.system_devices = [{"name": name} for name in names]

    @property
    def shown(self) -> set[int]:
        return set(self.server.core.subsystems[NQN].namespaces)

    @property
    def listening(self) -> list[int]:
        return [port.address[1] for port in self.server.ports]

    async def until(self, reached: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def host(self) -> Qpair:
        request = ConnectRequest(self.engine, CmRequest(0, 0, 32, 31, 0).encode())
        self.engine.channels["system"].put(request)
        await self.until(lambda: request.qpair is not None)
        assert request.qpair is not None
        request.qpair.device = "rxe0"
        return request.qpair


@asynccontextmanager
async def running(text: str, *devices: str) -> AsyncIterator[Lab]:
    lab = Lab(text, devices)
    async with lab:
        yield lab
    lab.monitor.close()


def disks(*paths: Path, more: str = "hotplug = true") -> str:
    spaces = "".join(
        f'[[subsystem.namespace]]\nnsid = {nsid}\nstore = "file"\npath = "{path}"\n{more}\n'
        for nsid, path in enumerate(paths, 1)
    )
    return (
        f'[[port]]\ndevice = "iwarp"\n[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n{spaces}'
    )
