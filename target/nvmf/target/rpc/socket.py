# SPDX-License-Identifier: BSD-3-Clause
"""The unix socket: who may ask, how much, how long; a client's faults end that client alone."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from nvmf.target.io.stores import ServerError
from nvmf.target.rpc import dispatch
from nvmf.target.rpc.errors import Code
from nvmf.target.rpc.framing import FramingError, Splitter, parse

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

log = logging.getLogger("nvmf.target.rpc")

CLIENTS_MOST = 64
"""Connections at a time; beyond that the one goes that has been silent longest."""
MESSAGE_TIMEOUT = 30.0
"""Seconds that a message has to arrive once it has begun, and a response to be taken."""
_READ_SIZE = 65536


class RpcSocket:
    """Listens at a path and answers, until it is closed."""

    def __init__(self, administration: asyncio.Future[Administration], path: Path) -> None:
        """administration: set once the target has started; requests wait for it."""
        self.path = path
        self._administration = administration
        self._server: asyncio.Server | None = None
        self._lock: int | None = None
        self._clients: dict[asyncio.Task[None], float] = {}
        """Each with when it was last heard of."""

    async def start(self) -> None:
        """Listen, for the owner alone; ServerError where that cannot be."""
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._take_lock()
            self._server = await asyncio.start_unix_server(self._client, sock=self._listen())
        except OSError as error:
            await self.close()
            raise ServerError(
                f"no administration at {self.path}: {error.strerror or error}; --rpc-socket or "
                "socket in [rpc] names another path"
            ) from error
        log.info("administration at %s", self.path)

    def _take_lock(self) -> None:
        """One target has a path, and what another left behind there does not matter."""
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(None, "another target is administered there") from None

    def _listen(self) -> socket.socket:
        """Under its name only when nobody else may connect any more."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        temporary = f"{self.path}.new"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            made.bind(temporary)
            os.chmod(temporary, 0o600)
            made.listen(CLIENTS_MOST)
            os.rename(temporary, self.path)
        except BaseException:
            made.close()
            raise
        return made

    async def close(self) -> None:
        """End it, with every client."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            self._server = None
        for task in self._clients:
            task.cancel()
        if self._clients:
            await asyncio.wait(self._clients)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # ---- one client ----

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = _peer(writer)
        if len(self._clients) >= CLIENTS_MOST:
            min(self._clients, key=self._clients.__getitem__).cancel()
        self._clients[task] = asyncio.get_running_loop().time()
        try:
            await self._serve(reader, writer, peer, task)
            writer.close()  # which sends what is not sent yet
            async with asyncio.timeout(MESSAGE_TIMEOUT):
                await writer.wait_closed()
        except (TimeoutError, OSError) as error:
            log.warning("%s: connection ended: %s", peer, str(error) or "it is too slow")
        except asyncio.CancelledError:
            pass  # by close(), or for a client that wants its place: the task ends either way
        finally:
            del self._clients[task]
            writer.transport.abort()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: str,
        task: asyncio.Task[None],
    ) -> None:
        loop = asyncio.get_running_loop()
        splitter = Splitter()
        deadline: float | None = None
        while True:
            async with asyncio.timeout_at(deadline):
                data = await reader.read(_READ_SIZE)
            if not data:
                return
            self._clients[task] = loop.time()
            try:
                for document in splitter.feed(data):
                    deadline = None
                    response = await dispatch.answer(self._administration, parse(document), peer)
                    await _send(writer, response)
            except FramingError as error:
                log.warning("%s: connection ended: %s", peer, error)
                await _send(writer, dispatch.error(Code.PARSE_ERROR, str(error)))
                writer.write_eof()
                return
            if not splitter.partial:
                deadline = None
            elif deadline is None:
                deadline = loop.time() + MESSAGE_TIMEOUT


async def _send(writer: asyncio.StreamWriter, response: object) -> None:
    """A response in one line, taken before the next request is looked at."""
    if response is None:
        return
    try:
        line = json.dumps(response)
    except (TypeError, ValueError):
        log.exception("an answer cannot be written")
        line = json.dumps(dispatch.error(Code.INTERNAL_ERROR, "its answer cannot be written"))
    writer.write(line.encode() + b"\n")
    async with asyncio.timeout(MESSAGE_TIMEOUT):
        await writer.drain()


def _peer(writer: asyncio.StreamWriter) -> str:
    """Who is at the other end."""
    sock: socket.socket = writer.get_extra_info("socket")
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return f"rpc client of user {uid}, process {pid}"
