# SPDX-License-Identifier: BSD-3-Clause
"""A server that changes, on the fake engine; its configurations, and its hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nvmf.config import loads
from nvmf.spec import commands
from nvmf.spec.cm import CmRequest
from nvmf.spec.fabrics import ConnectData
from nvmf.spec.properties import Property
from nvmf.target.service.starting import serve
from support.fakeengine import ConnectRequest, FakeEngine, Qpair
from support.faketarget import ENABLED, HOST, HOSTID, with_sgl
from support.served_lab import ServedLab

A, B = "nqn.2026-11.io.example:a", "nqn.2026-11.io.example:b"
PORT = '[[port]]\ntrsvcid = 4420\ndevice = "iwarp"\n'
SECOND = '[[port]]\ntrsvcid = 4421\ndevice = "iwarp"\n'


def subsystem(nqn: str, *namespaces: str, extra: str = "allow_any_host = true") -> str:
    spaces = "".join(f"[[subsystem.namespace]]\n{n}\n" for n in namespaces)
    return f'[[subsystem]]\nnqn = "{nqn}"\n{extra}\n{spaces}'


def ram(nsid: int, more: str = "", size: str = "1MiB") -> str:
    return f'nsid = {nsid}\nstore = "ram"\nsize = "{size}"\n{more}'


def file(nsid: int, path: str, more: str = "") -> str:
    return f'nsid = {nsid}\nstore = "file"\npath = "{path}"\n{more}'


BASE = PORT + subsystem(A, ram(1)) + subsystem(B, ram(1))


class Lab(ServedLab):
    """A server on the fake engine, and its hosts."""

    def __init__(self, text: str, state: Path | None = None) -> None:
        self.engine = FakeEngine()
        config = loads(text)
        if state is not None:
            target = config.target.model_copy(update={"state_dir": state})
            config = config.model_copy(update={"target": target})
        super().__init__(serve(config, engine=self.engine, listening=lambda _: None))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def host(self, nqn: str, hostnqn: str = HOST, port: int = 4420) -> Qpair:
        request = ConnectRequest(self.engine, CmRequest(0, 0, 32, 31, 0).encode())
        request.local = ("127.0.0.1", port)
        self.engine.channels["iwarp"].put(request)
        await self.settle()
        qpair = request.qpair
        assert qpair is not None
        data = ConnectData(HOSTID, 0xFFFF, nqn, hostnqn).encode()
        for sqe, more in (
            (commands.connect(0, 31), data),
            (commands.property_set(Property.CC, ENABLED), b""),
        ):
            command = self.engine.Command(qpair, with_sgl(sqe, len(more)), more)
            self.engine.target.put(command)
            await self.settle()
            assert command.result is not None
            assert command.result[0] == 0
        return qpair

    def facts(self) -> Any:
        """Return everything that a host could see, and the open stores."""
        return (
            {
                nqn: (
                    s.allow_any_host,
                    s.hosts,
                    {nsid: id(n) for nsid, n in s.namespaces.items()},
                    {nsid: n.store.size for nsid, n in s.namespaces.items()},
                    {nsid: s.mask_of(nsid) for nsid in s.namespaces},
                )
                for nqn, s in self.server.core.subsystems.items()
            },
            list(self.server.ports),
            list(self.server.core.ports),
            self.server.config,
            [store for store in self.engine.stores if not store.closed],
            [one for c in self.engine.channels.values() for one in c.listeners if not one.closed],
        )


@asynccontextmanager
async def running(text: str = BASE, state: Path | None = None) -> AsyncIterator[Lab]:
    async with Lab(text, state) as lab:
        yield lab
