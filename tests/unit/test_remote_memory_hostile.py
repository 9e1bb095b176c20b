# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory: bad input ends its sender's connection, and affects no other."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

import pytest

from nvmf import engine
from nvmf.spec.memory import Open, Opened, Request, Status
from nvmf.target import Target
from support.memorylab import HOST, NQN, opened, running

# ---- bad input ----


@contextlib.asynccontextmanager
async def raw(target: Target, request: bytes) -> AsyncIterator[engine.MemoryClient]:
    host, port = target.ports[0]
    client = await asyncio.to_thread(
        lambda: engine.MemoryClient(traddr=host, trsvcid=port, private_data=request)
    )
    try:
        yield client
    finally:
        client.close()


async def answer(client: engine.MemoryClient) -> bytes:
    async with asyncio.timeout(60):
        while True:
            client.poll()
            if message := client.message():
                return message
            await asyncio.sleep(0.001)


async def ended(client: engine.MemoryClient) -> str:
    with pytest.raises(engine.EngineError) as failure:
        async with asyncio.timeout(60):
            while True:
                client.poll()
                await asyncio.sleep(0.001)
    return str(failure.value)


async def ended_at_once(client: engine.MemoryClient) -> None:
    while True:
        client.poll()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("request_", "match"),
    [
        (Request(version=2, depth=4).encode(), r"different version.*its protocol version is 1"),
        (Request(depth=0).encode(), "malformed request"),
    ],
)
async def test_refused_requests(request_: bytes, match: str) -> None:
    async with running() as target:
        with pytest.raises(engine.EngineError, match=match):
            async with raw(target, request_):
                pass
        async with await opened(target) as memory:
            await memory.write(0, b"1")


OPEN = Open(subnqn=NQN, hostnqn=HOST)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\xff" * 100,
        b"\x02" + bytes(287),
        b"\x03" + bytes(30),
        OPEN.encode(),
    ],
    ids=["empty", "short", "unknown", "answer", "long-persist", "two"],
)
async def test_protocol_errors_cost_their_sender(message: bytes) -> None:
    async with running() as target, await opened(target) as memory:
        async with raw(target, Request(depth=4).encode()) as client:
            if message == b"\x01":
                client.send(message)
                assert Opened.decode(await answer(client)).status == Status.MALFORMED
                return
            client.send(message)
            if message == OPEN.encode():
                assert Opened.decode(await answer(client)).status == Status.OK
                client.send(message)
            assert await ended(client)
        await memory.write(0, b"still here")
        assert await memory.read(0, 10) == b"still here"


@pytest.mark.parametrize("method", ["write-read", "write-send", "read"])
async def test_beyond_the_range(method: str) -> None:
    """The key covers the range and nothing else."""
    async with running() as target, await opened(target) as memory:
        async with raw(target, Request(depth=4).encode()) as client:
            client.send(OPEN.encode())
            granted = Opened.decode(await answer(client))
            client.opened(granted.address, granted.key, granted.length + 4096)
            client.begin(0, method, granted.length - 4, 8)
            assert "lost" in await ended(client)
        await memory.write(0, b"still here")


async def test_persist_beyond_the_range_is_answered() -> None:
    """The answer has a status; the connection continues."""
    async with running() as target, raw(target, Request(depth=4).encode()) as client:
        client.send(OPEN.encode())
        granted = Opened.decode(await answer(client))
        ask = struct.pack("<BBHIQQ", 3, 0, 2, 0, granted.length, 1)
        client.send(ask)
        # the client has not begun an operation in that slot: it notices
        assert "an answer to nothing" in await ended(client)


async def test_a_key_of_one_connection_is_worth_nothing_on_another() -> None:
    async with running() as target, await opened(target) as memory:
        async with (
            raw(target, Request(depth=4).encode()) as one,
            raw(target, Request(depth=4).encode()) as other,
        ):
            one.send(OPEN.encode())
            granted = Opened.decode(await answer(one))
            other.opened(granted.address, granted.key, granted.length)
            other.begin(0, "write-read", 0, 8)
            assert "lost" in await ended(other)
        await memory.write(0, b"still here")


async def test_a_key_after_its_revocation() -> None:
    """A revoked key is valid neither on its connection nor on a new one of the same host."""
    async with running() as target, await opened(target) as memory:
        await memory.write(0, b"original")
        async with raw(target, Request(depth=4).encode()) as first:
            first.send(OPEN.encode())
            granted = Opened.decode(await answer(first))
            await target._server.memory.revoke(lambda one: one["hostnqn"] == HOST, "revoked")
            first.opened(granted.address, granted.key, granted.length)
            with pytest.raises(engine.EngineError, match="lost"):
                first.begin(0, "write-read", 0, 8)
                await ended_at_once(first)
        async with raw(target, Request(depth=4).encode()) as second:
            second.send(OPEN.encode())
            again = Opened.decode(await answer(second))
            second.opened(again.address, granted.key, granted.length)
            second.begin(0, "write-read", 0, 8)
            assert again.key != granted.key
            assert "lost" in await ended(second)
        async with await opened(target) as reader:
            assert await reader.read(0, 8) == b"original"


async def test_idle_connections_without_open_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvmf.target.io.memory._OPEN_TIMEOUT", 0.05)
    async with running() as target, raw(target, Request(depth=4).encode()) as client:
        assert await ended(client)


@pytest.mark.parametrize("message", [b"\x01", Open(subnqn=NQN, hostnqn="nqn.other").encode()])
async def test_a_host_that_was_refused_does_not_stay(
    message: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are limited in number."""
    monkeypatch.setattr("nvmf.target.io.memory._OPEN_TIMEOUT", 0.2)
    async with running() as target, raw(target, Request(depth=4).encode()) as client:
        client.send(message)
        assert Opened.decode(await answer(client)).status != Status.OK
        assert await ended(client)


@pytest.mark.parametrize("first", [b"\x01", OPEN.encode() + b"\0", Open(subnqn="x").encode()])
async def test_a_host_that_was_refused_has_no_second_try(first: bytes) -> None:
    """A refused host cannot try again, whatever was wrong with its OPEN."""
    async with running() as target, raw(target, Request(depth=4).encode()) as client:
        client.send(first)
        assert Opened.decode(await answer(client)).status != Status.OK
        client.send(OPEN.encode())
        assert await ended(client)
        assert not target._server.memory.describe()


async def test_a_refusal_with_an_nqn_in_another_language() -> None:
    """The message has more bytes than characters, and is cut to fit."""
    nqn = "nqn.2026-01.example:" + "é" * 110
    async with running() as target, raw(target, Request(depth=4).encode()) as client:
        client.send(Open(subnqn=NQN, hostnqn=nqn).encode())
        opened_ = Opened.decode(await answer(client))
        assert opened_.status == Status.NOT_ALLOWED
        assert opened_.text.startswith(nqn)


async def test_a_second_revocation_waits_for_the_first() -> None:
    """The second revocation has not ended the connection itself, but makes the same promise."""
    async with running() as target, raw(target, Request(depth=4).encode()) as client:
        client.send(OPEN.encode())
        assert Opened.decode(await answer(client)).status == Status.OK
        memory = target._server.memory
        first = asyncio.create_task(memory.revoke(lambda one: True, "revoked"))
        await asyncio.sleep(0)
        await memory.revoke(lambda one: True, "revoked")
        assert len(memory) == 0
        assert await first == 1


async def test_strangers_do_not_keep_hosts_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest connection without a range makes room for a new one; one with a range stays."""
    monkeypatch.setattr("nvmf.target.io.memory._LIMIT", 3)
    async with (
        running() as target,
        await opened(target) as first,
        raw(target, Request(depth=4).encode()) as one,
        raw(target, Request(depth=4).encode()) as two,
        await opened(target) as second,
    ):
        assert await ended(one)
        await second.write(0, b"second")
        assert await first.read(0, 6) == b"second"
        async with await opened(target):
            assert await ended(two)
            with pytest.raises(engine.EngineError, match="too many connections"):
                await opened(target)


async def test_hosts_that_leave_while_they_are_served() -> None:
    """The range is granted on a different thread, and the connection may end meanwhile."""
    before = engine.resources()
    async with running() as target:
        for turn in range(30):
            clients = []
            for _ in range(4):
                host, port = target.ports[0]
                clients.append(
                    await asyncio.to_thread(
                        engine.MemoryClient, traddr=host, trsvcid=port,
                        private_data=Request(depth=4).encode(),
                    )
                )  # fmt: skip
            for client in clients:
                client.send(OPEN.encode())
                if turn % 2:
                    await asyncio.sleep(0)
                client.close()
        async with await opened(target) as memory:
            await memory.write(0, b"1")
    assert engine.resources() == before


async def test_nothing_is_left() -> None:
    before = engine.resources()
    async with running() as target:
        for _ in range(3):
            async with await opened(target) as memory:
                await memory.write(0, b"1")
    assert engine.resources() == before
