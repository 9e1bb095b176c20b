# SPDX-License-Identifier: BSD-3-Clause
"""A relay of iWARP connections: TCP connections that are passed on frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from nvmf.relay.fault import Way
from nvmf.relay.frames import FpduStream
from nvmf.relay.owner import FpduOwner, Owner
from nvmf.relay.wire import Direction, Wire

Address = tuple[str, int]
_READ = 1 << 18


class TcpPath:
    """A TCP connection of a host, and the one to the target."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self._near = near
        self._far = far
        self.frames = FpduOwner(_name(near, "sockname"))
        self.halved = False

    @property
    def owner(self) -> Owner:
        """The owner of the connection."""
        return self.frames.queue.of(None)

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

    def __init__(self, wire: Wire, target: Address, near: Address | None) -> None:
        self._wire = wire
        self.target = target
        self._near = near
        self._outside: dict[Address, tuple[Address, Address]] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> Address:
        """Listen; return the address.  OSError if that is not possible."""
        here = self._near or ("::1" if ":" in self.target[0] else "127.0.0.1", 0)
        self._server = await asyncio.start_server(self._accepted, *here)
        name = self._server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    def outside(self, peer: Address) -> tuple[Address, Address] | None:
        """Return the addresses of a host and of the port that it uses, for those of the target's
        connection.  Any thread.
        """
        return self._outside.get(peer)

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
            answers, far = await asyncio.open_connection(*self.target)
        except OSError:
            near.transport.abort()
            self._tasks.discard(task)
            return
        for writer in (near, far):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        path = TcpPath(near, far)
        self._wire.paths.add(path)
        inside = _name(far, "sockname")
        self._outside[inside] = _name(near, "peername"), _name(near, "sockname")
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
            self._outside.pop(inside, None)
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
                    owner = path.frames.see(frame, way, fpdu=faulty)
                    await direction.take(frame, owner, faulty=faulty)
            await direction.take(stream.rest(), path.owner, faulty=False)
            await direction.drain()
            if writer.can_write_eof() and not writer.transport.is_closing() and not path.halved:
                writer.write_eof()
        except OSError:
            if not path.halved:
                path.cut()
        finally:
            sender.cancel()


def _name(writer: asyncio.StreamWriter, which: str) -> Address:
    name = writer.get_extra_info(which)
    return (str(name[0]), int(name[1])) if name else ("", 0)
