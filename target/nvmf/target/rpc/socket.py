# SPDX-License-Identifier: BSD-3-Clause
"""The Unix socket, its access and limits; an error of a client affects only that client."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from nvmf.rpc.errors import Code
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc import dispatch
from nvmf.target.rpc.framing import FramingError, Splitter, parse

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

log = logging.getLogger("nvmf.target.rpc")

CLIENTS_MOST = 64
"""Maximum connections; a further one displaces the one that has been idle for longest, or, if all
wait for an answer, the one that has waited for longest.
"""
MESSAGE_TIMEOUT = 30.0
"""Maximum seconds for a message to arrive after its first byte, and for a response to be read."""
_READ_SIZE = 65536
_NEW = ".new"
_PATH_MOST = 107 - len(_NEW)
"""Maximum bytes of the path: those of a Unix socket's, for its name before it is renamed."""


class SocketInUse(ServerError):
    """A different target serves at the path."""


class RpcSocket:
    """Listens at a path and answers, until closed."""

    def __init__(self, administration: asyncio.Future[Administration], path: Path) -> None:
        """administration: done once the target has started; requests wait for it."""
        self.path = path
        self._administration = administration
        self._server: asyncio.Server | None = None
        self._lock: int | None = None
        self._clients: dict[asyncio.Task[None], tuple[bool, float]] = {}
        """Clients: whether they wait for an answer, and the time of their last activity."""

    async def start(self) -> None:
        """Listen, accessible by the owner only; raise ServerError on failure."""
        try:
            if (length := len(os.fsencode(self.path))) > _PATH_MOST:
                raise OSError(
                    errno.ENAMETOOLONG,
                    f"the path has {length} bytes, and that of a socket at most {_PATH_MOST}",
                )
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._take_lock()
            self._server = await asyncio.start_unix_server(self._client, sock=self._listen())
        except OSError as error:
            await self.close()
            kind = SocketInUse if error.errno == errno.EADDRINUSE else ServerError
            raise kind(
                f"cannot serve administration at {self.path}: {error.strerror or error}; choose a "
                "different path with --rpc-socket, or socket in [rpc]"
            ) from error
        log.info("serving administration at %s", self.path)

    def _take_lock(self) -> None:
        """Lock the path for this target; remove a socket left there by a previous one."""
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EADDRINUSE, "the path is used by a different target") from None

    def _listen(self) -> socket.socket:
        """Create the socket with restricted permissions before it gets its name."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        temporary = f"{self.path}{_NEW}"
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
        """Stop listening, and disconnect every client."""
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
            idlest = min(self._clients, key=self._clients.__getitem__)
            del self._clients[idlest]  # at once: the next client displaces a different one
            idlest.cancel()
        self._clients[task] = False, asyncio.get_running_loop().time()
        try:
            await self._serve(reader, writer, peer, task)
            writer.close()  # sends buffered data first
            async with asyncio.timeout(MESSAGE_TIMEOUT):
                await writer.wait_closed()
        except (TimeoutError, OSError) as error:
            log.warning("%s: connection ended: %s", peer, str(error) or "the client is too slow")
        except asyncio.CancelledError:
            pass  # by close(), or displaced by a new client: the task ends either way
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()  # otherwise asyncio logs the error of a lost connection

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
            self._clients[task] = False, loop.time()
            try:
                for document in splitter.feed(data):
                    deadline = None
                    self._clients[task] = True, loop.time()
                    response = await dispatch.answer(self._administration, parse(document), peer)
                    self._clients[task] = False, loop.time()
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
    """Send a response in one line, before the next request is read."""
    if response is None:
        return
    try:
        line = json.dumps(response)
    except (TypeError, ValueError):
        log.exception("cannot encode a response")
        line = json.dumps(dispatch.error(Code.INTERNAL_ERROR, "cannot encode the response"))
    writer.write(line.encode() + b"\n")
    async with asyncio.timeout(MESSAGE_TIMEOUT):
        await writer.drain()


def _peer(writer: asyncio.StreamWriter) -> str:
    """Return a description of the client."""
    sock: socket.socket = writer.get_extra_info("socket")
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return f"rpc client of user {uid}, process {pid}"
