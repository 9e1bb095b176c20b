# SPDX-License-Identifier: BSD-3-Clause
"""A server on the fake engine, and its hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from nvmf.config import loads
from nvmf.spec import commands
from nvmf.spec.cm import CmRequest
from nvmf.spec.fabrics import ConnectData
from nvmf.spec.properties import Property
from nvmf.target.service.server import Listening
from nvmf.target.service.starting import serve
from support.fakeengine import Command, ConnectRequest, FakeEngine, Qpair
from support.faketarget import ENABLED, HOST, HOSTID, NQN, with_sgl
from support.served_lab import ServedLab

TEXT = f"""
[target]
reactors = 2
max_queues = 4
[iwarp]
crc = true
[[port]]
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class AlwaysMore(dict[str, int]):
    """The counters of a host that has sent a new command at each check."""

    looks = 0

    def get(self, name: str, default: Any = 0) -> Any:
        self.looks += 1
        return self.looks


class Lab(ServedLab):
    """A running server, and hosts of it."""

    def __init__(self, text: str = TEXT) -> None:
        self.engine = FakeEngine()
        self.said: list[Listening] = []
        super().__init__(serve(loads(text), listening=self.said.append, engine=self.engine))

    async def request(self, private_data: bytes, depth: int = 8) -> ConnectRequest:
        request = ConnectRequest(self.engine, private_data, depth)
        self.engine.channels["iwarp"].put(request)
        await settle()
        return request

    async def queue(self, qid: int = 0, entries: int = 32, cntlid: int = 0) -> Qpair:
        request = await self.request(CmRequest(0, qid, entries, entries - 1, cntlid).encode())
        assert request.qpair is not None
        return request.qpair

    async def run(self, qpair: Qpair, sqe: bytes, data: bytes = b"", length: int = 0) -> Command:
        command = Command(qpair, with_sgl(sqe, len(data) or length), data)
        self.engine.target.put(command)
        await settle()
        return command

    async def host(self, kato_ms: int = 0) -> Qpair:
        """A connected and enabled admin queue."""
        qpair = await self.queue()
        data = ConnectData(HOSTID, 0xFFFF, NQN, HOST).encode()
        done = await self.run(qpair, commands.connect(0, 31, kato_ms=kato_ms), data)
        assert done.result is not None
        assert done.result[0] == 0
        await self.run(qpair, commands.property_set(Property.CC, ENABLED))
        return qpair

    async def io(self, cntlid: int = 1) -> Qpair:
        qpair = await self.queue(1, 128, cntlid)
        data = ConnectData(HOSTID, cntlid, NQN, HOST).encode()
        done = await self.run(qpair, commands.connect(1, 127), data)
        assert done.result == (0, cntlid, 0, b"")
        return qpair


@asynccontextmanager
async def running(text: str = TEXT) -> AsyncIterator[Lab]:
    async with Lab(text) as lab:
        yield lab
