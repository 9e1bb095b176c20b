# SPDX-License-Identifier: BSD-3-Clause
"""The administration socket: requests, and clients that are invalid, slow, greedy or have
disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from nvmf.paths import default_socket
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc import socket as rpc_socket
from nvmf.target.rpc.framing import MESSAGE_MOST
from nvmf.target.rpc.registry import METHODS
from nvmf.target.rpc.socket import RpcSocket
from nvmf.target.service.administration import Administration
from support.mirrorlab import until
from support.rpclab import HANG, HOST, NQN, Client, Lab, connected, request

# ---- the protocol ----


@pytest.mark.feature("rpc")
async def test_requests_back_to_back(client: Client) -> None:
    """SPDK's clients send requests without separators; a newline is not one either."""
    one, two = request("rpc_get_methods", 1), request("spdk_get_version", "two")
    for place in range(0, len(one + two), 7):
        client.write((one + two)[place : place + 7])
    first, second = await client.read(), await client.read()
    assert (first["id"], second["id"]) == (1, "two")
    assert first["result"] == sorted(METHODS)
    client.write(b"\n" + one + b"\r\n\n" + two)
    assert [(await client.read())["id"] for _ in range(2)] == [1, "two"]


@pytest.mark.feature("rpc")
async def test_batches_and_notifications(client: Client, lab: Lab) -> None:
    silent = {"jsonrpc": "2.0", "method": "nvmf_subsystem_add_host",
              "params": {"nqn": NQN, "host": HOST}}  # fmt: skip
    loud = {"jsonrpc": "2.0", "id": 5, "method": "nvmf_get_subsystems", "params": {"nqn": NQN}}
    client.write(json.dumps(silent).encode() + json.dumps([silent]).encode())
    client.write(json.dumps([silent, loud, 1]).encode())
    answers = await client.read()
    assert [answer["id"] for answer in answers] == [5, None]
    assert answers[0]["result"][0]["hosts"] == [{"nqn": HOST}]
    assert answers[1]["error"]["code"] == -32600


@pytest.mark.feature("rpc")
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"[]", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "rpc_get_methods"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "rpc_get_methods"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "rpc_get_methods", "extra": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "no_such"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "rpc_get_methods", "params": [1]}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "rpc_get_methods", "params": {"a": 1}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nvmf_delete_subsystem"}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nvmf_delete_subsystem",'
         b' "params": {"nqn": 5}}', -32602),
    ],
)  # fmt: skip
async def test_wrong_requests(client: Client, raw: bytes, code: int) -> None:
    """Invalid requests are answered, and the connection continues."""
    client.write(raw)
    assert (await client.read())["error"]["code"] == code
    assert await client.result("rpc_get_methods")


@pytest.mark.parametrize("raw", [b"hello", b"{]", b"[" * 100, b'{"a": "\xff"}', b"}"])
async def test_malformed(lab: Lab, client: Client, raw: bytes) -> None:
    """The start of the next request is unknown: an error is sent, and the connection closed."""
    async with connected(lab.rpc.path) as bad:
        bad.write(request("rpc_get_methods") + raw)
        assert "result" in await bad.read()
        assert (await bad.read())["error"]["code"] == -32700
        assert await bad.read() is None
    assert await client.result("rpc_get_methods")


async def test_oversized(lab: Lab, client: Client) -> None:
    async with connected(lab.rpc.path) as bad:
        bad.write(b'{"jsonrpc": "' + b"x" * (MESSAGE_MOST + 1))
        assert "more than" in (await bad.read())["error"]["message"]
    assert await client.result("rpc_get_methods")


async def test_slow(lab: Lab, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial message has a time limit; silence between messages has none."""
    monkeypatch.setattr(rpc_socket, "MESSAGE_TIMEOUT", 0.05)
    async with connected(lab.rpc.path) as slow:
        slow.write(b'{"jsonrpc"')
        assert await slow.read() is None
    assert await client.result("rpc_get_methods")


async def test_who_does_not_read(lab: Lab, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends requests and reads no answers is disconnected after a while."""
    monkeypatch.setattr(rpc_socket, "MESSAGE_TIMEOUT", 0.2)
    async with connected(lab.rpc.path) as greedy:
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            async with asyncio.timeout(HANG):
                while not greedy.writer.transport.is_closing():
                    greedy.write(request("rpc_get_methods") * 200)
                    await greedy.writer.drain()
        assert await client.result("rpc_get_methods")


async def test_who_leaves_without_reading(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of its connection is taken: asyncio does not log it when that is freed."""
    unheard: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    # It takes the error if it is freed before the future, which a collection does not promise.
    monkeypatch.delattr(asyncio.StreamReaderProtocol, "__del__")
    reader, writer = await asyncio.open_unix_connection(lab.rpc.path)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(request("rpc_get_methods") * 200)
    await writer.drain()
    await until(lambda: len(lab.rpc._clients) == 1)
    await asyncio.sleep(0)
    writer.transport.abort()
    await until(lambda: not lab.rpc._clients)
    del reader, writer
    gc.collect()
    await asyncio.sleep(0)
    gc.collect()
    assert not unheard


async def test_a_long_answer_to_who_says_no_more(lab: Lab) -> None:
    """A long answer is sent completely, although the client has closed its side and reads
    slowly.
    """
    async with connected(lab.rpc.path) as client:
        client.write(request("rpc_get_methods") * 3000)
        client.writer.write_eof()
        for _ in range(3000):
            assert (await client.read())["result"] == sorted(METHODS)
        assert await client.read() is None


async def test_too_many(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that has been silent for the longest time is closed."""
    monkeypatch.setattr(rpc_socket, "CLIENTS_MOST", 2)
    async with connected(lab.rpc.path) as first, connected(lab.rpc.path) as second:
        await first.result("rpc_get_methods")
        await second.result("rpc_get_methods")
        await first.result("rpc_get_methods")
        async with connected(lab.rpc.path) as third:
            assert await third.result("rpc_get_methods")
            assert await second.read() is None
            assert await first.result("rpc_get_methods")


async def test_many_at_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that arrive together are no more than the limit either."""
    monkeypatch.setattr(rpc_socket, "CLIENTS_MOST", 2)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(10)]
        for sock in crowd:
            sock.connect(str(lab.rpc.path))
            sock.setblocking(False)
        async with asyncio.timeout(HANG):
            for sock in crowd[:8]:
                assert await asyncio.get_running_loop().sock_recv(sock, 1) == b""
    async with connected(lab.rpc.path) as client:
        assert await client.result("rpc_get_methods")


async def test_too_many_of_which_one_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits for an answer is not idle, however long it waits."""
    monkeypatch.setattr(rpc_socket, "CLIENTS_MOST", 2)
    starting = RpcSocket(asyncio.Future(), tmp_path / "starting.sock")
    await starting.start()
    try:
        async with connected(starting.path) as waits, connected(starting.path) as idle:
            waits.write(request("rpc_get_methods"))
            await waits.writer.drain()
            idle.write(b"[]")
            assert "must not be empty" in (await idle.read())["error"]["message"]
            async with connected(starting.path) as third:
                third.write(b"[]")
                assert await third.read()
                assert await idle.read() is None
                assert not waits.reader.at_eof()
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(waits.reader.read(1), 0.2)
    finally:
        await starting.close()


async def test_gone_before_the_answer(lab: Lab, client: Client) -> None:
    """A change is completed although no client waits for it."""
    async with connected(lab.rpc.path) as gone:
        gone.write(request("nvmf_create_subsystem", nqn=f"{NQN}2"))
        await gone.writer.drain()
    async with asyncio.timeout(HANG):
        while len(await client.result("nvmf_get_subsystems")) < 3:
            pass


# ---- the socket ----


@pytest.mark.feature("rpc")
async def test_only_the_owner(lab: Lab) -> None:
    assert stat.S_IMODE(lab.rpc.path.stat().st_mode) == 0o600
    other = RpcSocket(asyncio.Future(), lab.rpc.path)
    with pytest.raises(ServerError, match="the path is used by a different target"):
        await other.start()
    await lab.rpc.close()
    assert not lab.rpc.path.exists()


async def test_left_behind(lab: Lab) -> None:
    """A socket file left by a killed target is not an obstacle."""
    await lab.rpc.close()
    lab.rpc.path.write_text("")
    await lab.rpc.start()
    async with connected(lab.rpc.path) as client:
        assert await client.result("rpc_get_methods")


def test_where_it_is() -> None:
    assert default_socket({"RUNTIME_DIRECTORY": "/run/a:/run/b"}) == Path("/run/a/target.sock")
    if os.geteuid() == 0:
        assert default_socket({}) == Path("/run/nvmeof/target.sock")


async def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """The message has the limit, and nothing is left; the longest path is usable."""
    longest = tmp_path / ("s" * (103 - len(os.fsencode(tmp_path)) - 1))
    administration: asyncio.Future[Administration] = asyncio.get_running_loop().create_future()
    server = RpcSocket(administration, longest.with_name(f"{longest.name}x"))
    with pytest.raises(
        ServerError, match="the path has 104 bytes, and that of a socket at most 103"
    ):
        await server.start()
    assert not os.listdir(tmp_path)
    server = RpcSocket(administration, longest)
    await server.start()
    await server.close()
