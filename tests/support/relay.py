# SPDX-License-Identifier: BSD-3-Clause
"""A TCP relay before a target's port: a path that a test can cut, even within a frame."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.clientlab import free_port


def free_ports(count: int) -> list[int]:
    """Return this many unused ports, all different."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


class Relay:
    """Listens on its own port, and passes bytes both ways to a different one."""

    def __init__(self, port: int, service: int) -> None:
        self.port = port
        self._service = service
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: int | None = None
        self._flows = asyncio.Event()
        self._answers = asyncio.Event()
        self._flows.set()
        self._answers.set()

    async def open(self) -> None:
        """Let connections through."""
        self._left = None
        self._flows.set()
        self._answers.set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Reset every connection, and refuse new ones, until open()."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._flows.set()
        self._answers.set()
        for writer in self._writers:
            writer.transport.abort()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def stall(self) -> None:
        """Keep connections, but pass no data until go_on()."""
        self._flows.clear()

    def hold_answers(self) -> None:
        """Pass data to the target, and none back, until cut()."""
        self._answers.clear()

    def go_on(self) -> None:
        """Pass data again."""
        self._flows.set()

    def cut_after(self, size: int) -> None:
        """Cut after size more bytes to the target: data in transit arrives in part."""
        self._left = size

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            there, away = await asyncio.open_connection("127.0.0.1", self._service)
            self._writers.add(away)
            try:
                await asyncio.gather(
                    self._pass(reader, away, counted=True), self._pass(there, writer)
                )
            finally:
                self._writers.discard(away)
                away.transport.abort()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flows.wait()
                if not counted:
                    await self._answers.wait()
                if counted and self._left is not None:
                    data = data[: self._left]
                    self._left -= len(data)
                writer.write(data)
                await writer.drain()
                if counted and self._left == 0:
                    self._stop()
        writer.close()

    def _stop(self) -> None:
        """The same as cut(), without the wait."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def relayed(service: int, count: int = 2) -> AsyncIterator[list[Relay]]:
    """Yield this many open relays to one port."""
    relays = [Relay(port, service) for port in free_ports(count)]
    try:
        for relay in relays:
            await relay.open()
        yield relays
    finally:
        for relay in relays:
            await relay.cut()
