# SPDX-License-Identifier: BSD-3-Clause
"""The subset of HTTP required for a scrape: GET /metrics, one request per connection.

A client that is slow, sends invalid requests or does not read affects only itself: its time, its
size and the number of clients are limited, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from http import HTTPStatus

from nvmf.config.services import MetricsConfig
from nvmf.target.io.ports import where
from nvmf.target.io.stores import ServerError

log = logging.getLogger("nvmf.target")

CLIENTS_MOST = 16
"""Maximum connections; a further one displaces the oldest."""
REQUEST_MOST = 8192
"""Maximum bytes of a request."""
REQUEST_TIMEOUT = 10.0
"""Maximum seconds until a request has arrived."""
RESPONSE_TIMEOUT = 30.0
"""Maximum seconds to produce and send a response."""
_BUFFER = 65536
"""Maximum bytes of a response that are buffered in the process while the client reads."""

Render = Callable[[str], tuple[bytes, str]]
"""Returns the text and its type for an Accept header, on any thread."""


class _RefusedError(Exception):
    """A refused request, and why."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class MetricsServer:
    """Listens, and answers scrapes until closed.

    prepare is called on the loop's thread for each scrape; its result is called on an executor.
    """

    def __init__(self, config: MetricsConfig, prepare: Callable[[], Render]) -> None:
        self._config = config
        self._prepare = prepare
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], None] = {}
        """Clients, the oldest first."""
        self._turn = asyncio.Lock()
        """Held while a scrape is produced: one at a time."""

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        assert self._server is not None
        name = self._server.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def start(self) -> None:
        """Listen; raise ServerError on failure."""
        config = self._config
        try:
            self._server = await asyncio.start_server(
                self._client, config.address, config.port, limit=REQUEST_MOST
            )
        except OSError as error:
            place = where((config.address, config.port))
            # asyncio's message repeats the address, as a tuple.
            code = error.errno or 0
            why = os.strerror(code) if code > 0 else str(error)
            raise ServerError(
                f"cannot serve metrics at {place}: {why}; change address or port in [metrics]"
            ) from error
        log.info("serving metrics at http://%s/metrics", where(self.address))

    async def close(self) -> None:
        """Stop listening, and disconnect every client."""
        if self._server is not None:
            self._server.close()
        for task in self._clients:
            task.cancel()
        if self._clients:
            await asyncio.wait(self._clients)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= CLIENTS_MOST:
            oldest = next(iter(self._clients))
            del self._clients[oldest]  # at once: the next client displaces a different one
            oldest.cancel()
        self._clients[task] = None
        writer.transport.set_write_buffer_limits(_BUFFER)
        try:
            # Not logged: anyone who can connect could fill the log.
            with contextlib.suppress(TimeoutError, OSError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head_only, accept = await _request(reader)
        except _RefusedError as refused:
            body, kind, status = f"{refused}\n".encode(), "text/plain", refused.status
            head_only = False
        else:
            status = HTTPStatus.OK
            async with asyncio.timeout(RESPONSE_TIMEOUT), self._turn:
                render = self._prepare()
                loop = asyncio.get_running_loop()
                body, kind = await loop.run_in_executor(None, render, accept)
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: GET, HEAD")
        async with asyncio.timeout(RESPONSE_TIMEOUT):
            writer.write("\r\n".join([*lines, "", ""]).encode())
            if not head_only:
                writer.write(body)
            await writer.drain()
            writer.write_eof()
            # Closing before the client has read makes the kernel discard unread data.
            while await reader.read(REQUEST_MOST):
                pass


async def _request(reader: asyncio.StreamReader) -> tuple[bool, str]:
    """Return whether only the head is requested, and the Accept header."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise _RefusedError(status, f"the request has more than {REQUEST_MOST} bytes") from None
    except asyncio.IncompleteReadError:
        raise OSError("the client disconnected") from None
    except TimeoutError:
        status, seconds = HTTPStatus.REQUEST_TIMEOUT, REQUEST_TIMEOUT
        raise _RefusedError(status, f"the request did not arrive within {seconds:g} s") from None
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "not a valid HTTP/1.1 request")
    if words[0] not in ("GET", "HEAD"):
        raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are supported")
    if words[1].partition("?")[0] != "/metrics":
        raise _RefusedError(HTTPStatus.NOT_FOUND, "metrics are at /metrics")
    headers = (line.partition(":") for line in lines[1:])
    accept = ",".join(value for name, _, value in headers if name.strip().lower() == "accept")
    return words[0] == "HEAD", accept
