# SPDX-License-Identifier: BSD-3-Clause
"""A relay of iWARP connections: TCP connections that are passed on frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from nvmf.lab.frames import FpduStream
from nvmf.lab.wire import Direction, Wire
from nvmf.lab.wirefault import Way

_READ = 1 << 18


class TcpPath:
    """A TCP connection of a host, and the one to the target."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._near = near
        self._far = far
        self.halved = False

    def cut(self) -> None:
        """Reset both connections."""
        self._near.transport.abort()
        self._far.transport.abort()

    def half_open(self) -> None:
        """Reset the target's, and keep the host's."""
        self.halved = True
        self._far.transport.abort()


class TcpRelay:
    """Listens on an address of this machine, and connects to the target for each connection."""

    def __init__(self, wire: Wire, target: tuple[str, int]) -> None:
        self._wire = wire
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> tuple[str, int]:
        """Listen; return the address."""
        here = "::1" if ":" in self._target[0] else "127.0.0.1"
        self._server = await asyncio.start_server(self._accepted, here, 0)
        name = self._server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            answers, far = await asyncio.open_connection(*self._target)
        except OSError:
            near.transport.abort()
            self._tasks.discard(task)
            return
        for writer in (near, far):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        path = TcpPath(near, far)
        self._wire.paths.add(path)
        pumps = [
            asyncio.create_task(self._pump(reader, far, path, "to-target")),
            asyncio.create_task(self._pump(answers, near, path, "to-host")),
        ]
        try:
            await asyncio.gather(*pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            self._wire.paths.discard(path)
            path.cut()
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: TcpPath, way: Way
    ) -> None:
        """Pass a direction on, to its end; an end with an error ends the other side so, too."""

        async def send(frame: bytes) -> None:
            if not (path.halved or writer.transport.is_closing()):
                writer.write(frame)
                with contextlib.suppress(OSError):  # its reader sees it, too
                    await writer.drain()

        stream = FpduStream()
        direction = Direction(self._wire, way, path, send)
        sender = asyncio.create_task(direction.run())
        try:
            while data := await reader.read(_READ):
                for frame, faulty in stream.receive(data):
                    await direction.take(frame, faulty=faulty)
            await direction.take(stream.rest(), faulty=False)
            await direction.drain()
            if writer.can_write_eof() and not writer.transport.is_closing() and not path.halved:
                writer.write_eof()
        except OSError:
            if not path.halved:
                path.cut()
        finally:
            sender.cancel()
