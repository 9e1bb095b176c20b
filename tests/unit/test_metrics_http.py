# SPDX-License-Identifier: BSD-3-Clause
"""HTTP scrapes by clients that are invalid, slow, greedy or have disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest

from nvmf.config.services import MetricsConfig
from nvmf.target.io.stores import ServerError
from nvmf.target.metrics import http
from nvmf.target.metrics.http import CLIENTS_MOST, REQUEST_MOST, MetricsServer, Render

T = TypeVar("T")
HANG = 60
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: a/b\r\naccept:c/d\r\n\r\n"
BODY = b"nvmeof 1\n"


class Lab:
    """A server whose metrics are a fixed text."""

    def __init__(self) -> None:
        self.body = BODY
        self.accepts: list[str] = []
        self.server = MetricsServer(MetricsConfig(enabled=True, port=0), self.prepare)

    def prepare(self) -> Render:
        def render(accept: str) -> tuple[bytes, str]:
            self.accepts.append(accept)
            return self.body, "text/plain; version=0.0.4"

        return render

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.server.address)

    async def ask(self, raw: bytes, *, end: bool = False) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of a response."""
        reader, writer = await self.open()
        writer.write(raw)
        if end:
            writer.write_eof()
        answer = await soon(reader.read())
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert headers["Connection"] == "close"
        return int(first.split()[1]), headers, body


async def soon(work: Awaitable[T]) -> T:
    async with asyncio.timeout(HANG):
        return await work


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    made = Lab()
    await made.server.start()
    yield made
    await soon(made.server.close())


@pytest.mark.feature("prometheus")
async def test_a_scrape(lab: Lab) -> None:
    for half_closed in (False, True):
        status, headers, body = await lab.ask(GET, end=half_closed)
        assert (status, body) == (200, BODY)
        assert headers["Content-Type"] == "text/plain; version=0.0.4"
        assert int(headers["Content-Length"]) == len(BODY)
    assert lab.accepts == [" a/b,c/d"] * 2
    status, headers, body = await lab.ask(GET.replace(b"GET", b"HEAD"))
    assert (status, headers["Content-Length"], body) == (200, str(len(BODY)), b"")
    assert (await lab.ask(GET.replace(b"metrics", b"metrics?a=b")))[0] == 200


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (GET.replace(b"/metrics", b"/"), 404),
        (GET.replace(b"GET", b"POST"), 405),
        (GET.replace(b"HTTP/1.1", b"HTTP/2"), 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\xff\r\n\r\n", 400),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + bytes(REQUEST_MOST * 2), 431),
    ],
)
async def test_what_is_no_scrape(lab: Lab, raw: bytes, status: int) -> None:
    found, headers, body = await lab.ask(raw, end=True)
    assert found == status
    assert ("Allow" in headers) == (status == 405)
    assert body.endswith(b"\n")
    assert not lab.accepts
    assert (await lab.ask(GET))[0] == 200


async def test_a_request_that_does_not_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.05)
    reader, writer = await lab.open()
    writer.write(GET[:-2])
    assert (await soon(reader.read())).startswith(b"HTTP/1.1 408 ")
    writer.close()


async def test_a_client_that_does_not_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client does not affect the others, and its connection is closed."""
    monkeypatch.setattr(http, "RESPONSE_TIMEOUT", 0.5)
    lab.body = bytes(64 << 20)
    with socket.create_connection(lab.server.address) as sock:
        sock.sendall(GET)
        async with asyncio.timeout(HANG):
            while not lab.accepts or lab.server._clients:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    monkeypatch.undo()
    lab.body = BODY
    assert (await lab.ask(GET))[2] == BODY


async def test_the_oldest_goes_when_there_are_too_many(lab: Lab) -> None:
    crowd = [await lab.open() for _ in range(CLIENTS_MOST + 1)]
    assert await soon(crowd[0][0].read()) == b""
    assert (await lab.ask(GET))[2] == BODY
    for _, writer in crowd:
        writer.close()


async def test_many_at_once(lab: Lab) -> None:
    """Connections that arrive together are no more than the limit either."""
    with contextlib.ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(lab.server.address))
            for _ in range(3 * CLIENTS_MOST)
        ]
        for sock in crowd[: 2 * CLIENTS_MOST]:
            sock.setblocking(False)
            with contextlib.suppress(ConnectionResetError):
                assert await soon(asyncio.get_running_loop().sock_recv(sock, 1)) == b""
    assert (await lab.ask(GET))[2] == BODY


async def test_a_client_that_leaves(lab: Lab) -> None:
    for part in (b"", GET[:10], GET):
        _, writer = await lab.open()
        writer.write(part)
        writer.transport.abort()
    assert (await lab.ask(GET))[2] == BODY


async def test_an_address_that_is_taken(lab: Lab) -> None:
    other = MetricsServer(
        MetricsConfig(enabled=True, port=lab.server.address[1]), lambda: lambda _: (b"", "")
    )
    taken = r"cannot serve metrics at 127\.0\.0\.1:\d+: Address already in use; .*\[metrics\]"
    with pytest.raises(ServerError, match=taken):
        await other.start()
    await other.close()
