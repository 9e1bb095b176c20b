# SPDX-License-Identifier: BSD-3-Clause
"""A server on the fake engine, its administration socket, and a client of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nvmf.config import loads
from nvmf.target.rpc.socket import RpcSocket
from nvmf.target.service.administration import Administration
from nvmf.target.service.starting import serve
from support.fakeengine import FakeEngine
from support.served_lab import ServedLab

NQN = "nqn.2026-11.io.example:disk"
HOST = "nqn.2026-11.io.example:host"
TEXT = f"""
[[port]]
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""
HANG = 60


class Client:
    """A connection to the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def write(self, raw: bytes) -> None:
        self.writer.write(raw)

    async def read(self) -> Any:
        """The next response; None at the end."""
        async with asyncio.timeout(HANG):
            line = await self.reader.readline()
        return json.loads(line) if line else None

    async def ask(self, method: str, ident: object = 1, **params: Any) -> Any:
        self.write(request(method, ident, **params))
        return await self.read()

    async def result(self, method: str, **params: Any) -> Any:
        answer = await self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    async def refused(self, method: str, **params: Any) -> tuple[int, str]:
        answer = await self.ask(method, **params)
        return answer["error"]["code"], answer["error"]["message"]


def request(method: str, ident: object = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode()


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class Lab(ServedLab):
    """The server and its socket."""

    def __init__(self, folder: Path) -> None:
        self.engine = FakeEngine()
        super().__init__(serve(loads(TEXT), engine=self.engine, listening=lambda _: None))
        self.administration: asyncio.Future[Administration] = asyncio.Future()
        self.rpc = RpcSocket(self.administration, folder / "t.sock")


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Lab]:
    made = Lab(folder)
    async with made:
        made.administration.set_result(Administration(made.server))
        await made.rpc.start()
        yield made
        await made.rpc.close()
