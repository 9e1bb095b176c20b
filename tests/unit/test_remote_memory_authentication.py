# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory for hosts that must authenticate: valid keys, wrong ones, none, and attempts to
skip the exchange.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from nvmf import engine
from nvmf.auth import HostAuth, Key
from nvmf.auth.response import Parties
from nvmf.cli.main import main
from nvmf.config import loads
from nvmf.initiator import AuthenticationError
from nvmf.spec.auth import AuthId, DhGroup, Hash
from nvmf.spec.memory import AUTH, AUTH_HEADER, CAN_AUTHENTICATE, Open, Opened, Request, Status
from nvmf.target import Target
from nvmf.target.io.memoryauth import Exchange
from nvmf.target.sync import serve as serve_sync
from support.memorylab import (
    CONFIG,
    HOST,
    NQN,
    OTHER,
    READER,
    memory_of,
    opened,
    over_roce,
    running,
)
from support.roce import own_address

KEY = Key(bytes(range(32)))
CTRL_KEY = Key(bytes(range(32, 64)))
WRONG = Key(bytes(32))


def config(keys: str = "") -> str:
    keys = keys or f'dhchap_key = "{KEY.text()}"\n'
    return CONFIG.replace(f'"{HOST}", "{READER}"', f'"{READER}"', 1).replace(
        "[[subsystem.namespace]]",
        f'[[subsystem.host]]\nnqn = "{HOST}"\n{keys}[[subsystem.namespace]]',
    )


BOTH = f'dhchap_key = "{KEY.text()}"\ndhchap_ctrl_key = "{CTRL_KEY.text()}"\n'


# ---- keys ----


async def test_the_right_key_opens() -> None:
    async with running(config()) as target:
        async with await opened(target, dhchap_secret=KEY.text()) as memory:
            await memory.write(0, b"proven")
            assert await memory.read(0, 6) == b"proven"
            assert memory_of(target) == [(HOST, "read-write")]
        async with await opened(target, READER, read_only=True) as reader:  # has no key
            assert await reader.read(0, 6) == b"proven"


async def test_both_ways() -> None:
    async with running(config(BOTH)) as target:
        keys: dict[str, Any] = {"dhchap_secret": KEY, "dhchap_ctrl_secret": CTRL_KEY}
        async with await opened(target, **keys) as memory:
            await memory.write(0, b"1")
        with pytest.raises(AuthenticationError, match="not be the controller that it claims"):
            await opened(target, dhchap_secret=KEY, dhchap_ctrl_secret=WRONG)


@pytest.mark.parametrize("group", ["2048", "8192"])
async def test_groups(group: str) -> None:
    """The longest messages are those of the largest group and hash."""
    keys = f'{BOTH}dhchap_hashes = ["sha512"]\ndhchap_dhgroups = ["ffdhe{group}"]\n'
    async with running(config(keys)) as target:
        found: dict[str, Any] = {"dhchap_secret": KEY, "dhchap_ctrl_secret": CTRL_KEY}
        async with await opened(target, **found) as memory:
            await memory.write(0, b"1")


async def test_a_wrong_key_is_refused() -> None:
    async with running(config()) as target:
        with pytest.raises(AuthenticationError, match=r"the controller refused: .*dhchap-secret"):
            await opened(target, dhchap_secret=WRONG)
        assert not memory_of(target)
        async with await opened(target, dhchap_secret=KEY) as memory:
            await memory.write(0, b"1")


async def test_no_key_is_refused() -> None:
    async with running(config()) as target:
        with pytest.raises(AuthenticationError, match=f"{HOST} must authenticate.*dhchap-secret"):
            await opened(target)


async def test_a_target_that_does_not_ask_proves_nothing() -> None:
    """A host key that is not needed does no harm; a controller key demands the target's proof."""
    async with running() as target:
        async with await opened(target, dhchap_secret=KEY) as memory:
            await memory.write(0, b"1")
        with pytest.raises(AuthenticationError, match="would not prove who it is"):
            await opened(target, dhchap_secret=KEY, dhchap_ctrl_secret=CTRL_KEY)
        with pytest.raises(ValueError, match="requires dhchap_secret"):
            await opened(target, dhchap_ctrl_secret=CTRL_KEY)


async def test_a_key_that_is_added_fences_a_host_without() -> None:
    async with running() as target:
        memory = await opened(target)
        await target._server.apply(loads(config()))
        with pytest.raises(OSError, match="lost"):
            await memory.write(0, b"1")
        await memory.close()
        async with await opened(target, dhchap_secret=KEY) as again:
            await target._server.apply(loads(CONFIG))
            await again.write(0, b"it needs none now")


def test_bench_authenticates(capsys: pytest.CaptureFixture[str]) -> None:
    with serve_sync(loads(config())) as target:
        words = ["pmem", "bench", target.url, "--force", "--runtime", "20ms", "-q", HOST]
        words += ["--ignore-assumptions"]
        assert main(words) != 0
        assert "must authenticate" in capsys.readouterr().err
        assert main([*words, "--dhchap-secret", KEY.text()]) == 0
        assert "cannot authenticate" in capsys.readouterr().out


# ---- cheats ----


@contextlib.asynccontextmanager
async def raw(target: Target) -> AsyncIterator[engine.MemoryClient]:
    host, port = target.ports[0]
    client = await asyncio.to_thread(
        lambda: engine.MemoryClient(
            traddr=host, trsvcid=port, private_data=Request(depth=4).encode()
        )
    )
    try:
        yield client
    finally:
        client.close()


async def answer(client: engine.MemoryClient) -> bytes:
    while True:
        client.poll()
        if message := client.message():
            return message
        await asyncio.sleep(0.001)


async def ended(client: engine.MemoryClient) -> None:
    with pytest.raises(engine.EngineError):
        while True:
            client.poll()
            await asyncio.sleep(0.001)


OPEN = Open(subnqn=NQN, hostnqn=HOST, flags=CAN_AUTHENTICATE).encode()
FAILURE = bytes((0, AuthId.FAILURE1))


@pytest.mark.parametrize(
    "message",
    [
        OPEN,
        OPEN[:4] + bytes(4) + OPEN[8:],
        bytes((AUTH,)),
        AUTH_HEADER,
        AUTH_HEADER + b"\xff" * 100,
        AUTH_HEADER + bytes(1168),
        AUTH_HEADER + bytes((0, AuthId.SUCCESS2)) + bytes(14),
        b"\x02" + bytes(287),
    ],
    ids=["open", "other-open", "short", "done", "noise", "zeroes", "success", "opened"],
)
async def test_a_peer_that_skips_the_exchange(message: bytes) -> None:
    """No message gives the peer a memory key; the connections of others keep working."""
    async with running(config()) as target:
        async with raw(target) as client:
            client.send(OPEN)
            assert await answer(client) == AUTH_HEADER
            client.send(message)
            if message[0] == AUTH and len(message) >= len(AUTH_HEADER):
                said = await answer(client)
                assert said[:8] == AUTH_HEADER
                assert said[8:10] == FAILURE
                client.send(AUTH_HEADER)
            await ended(client)
        assert not memory_of(target)
        async with await opened(target, dhchap_secret=KEY) as memory:
            await memory.write(0, b"1")


async def test_persist_before_the_exchange_finds_nothing_open() -> None:
    async with running(config()) as target, raw(target) as client:
        client.send(OPEN)
        assert await answer(client) == AUTH_HEADER
        client.send(struct.pack("<BBHIQQ", 3, 0, 2, 0, 0, 8))
        await ended(client)  # the answer has status 2, and the client expects none


async def test_a_write_with_a_guessed_key_ends_the_connection() -> None:
    async with running(config()) as target, await opened(target, dhchap_secret=KEY) as memory:
        await memory.write(0, b"original")
        async with raw(target) as owner, raw(target) as thief:
            read = Open(subnqn=NQN, hostnqn=READER, access=1).encode()
            owner.send(read)
            granted = Opened.decode(await answer(owner))
            thief.send(OPEN)
            assert await answer(thief) == AUTH_HEADER
            thief.opened(granted.address, granted.key, granted.length)
            thief.fill(0, b"changed!")
            thief.begin(0, "write-read", 0, 8)
            await ended(thief)
        assert await memory.read(0, 8) == b"original"


@pytest.mark.parametrize("when", ["before", "after", "unasked"])
async def test_auth_at_the_wrong_time(when: str) -> None:
    async with running(config()) as target, raw(target) as client:
        if when != "before":
            client.send(Open(subnqn=NQN, hostnqn=READER, access=1).encode())
            assert Opened.decode(await answer(client)).status == Status.OK
        client.send(AUTH_HEADER + (b"x" if when == "after" else b""))
        await ended(client)


async def test_one_more_message_after_success() -> None:
    """Without mutual authentication, only the empty AUTH may follow Success1."""
    async with running(config()) as target, raw(target) as client:
        client.send(OPEN)
        assert await answer(client) == AUTH_HEADER
        hashes, groups = (Hash.SHA_256,), (DhGroup.NULL,)
        auth = HostAuth(Parties(HOST, NQN), KEY, hashes=hashes, groups=groups)
        while not auth.done:
            client.send(AUTH_HEADER + (auth.outgoing() or b""))
            auth.incoming((await answer(client))[8:])
        assert auth.error is None
        client.send(AUTH_HEADER + b"more")
        await ended(client)
        assert not memory_of(target)


async def test_others_have_their_turns_during_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of many strangers, for each of which Diffie-Hellman takes its time."""
    turns = [0]
    steps: list[int] = []
    step = Exchange.step

    def counted(exchange: Exchange, message: bytes) -> bytes | None:
        steps.append(turns[0])
        return step(exchange, message)

    async def other() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Exchange, "step", counted)
    async with running(config()) as target, contextlib.AsyncExitStack() as stack:
        strangers = [await stack.enter_async_context(raw(target)) for _ in range(8)]
        for client in strangers:
            client.send(OPEN)
            assert await answer(client) == AUTH_HEADER
        for client in strangers:  # all are there before the target's thread sees the first
            client.send(AUTH_HEADER + bytes(1168))
        time.sleep(0.2)  # noqa: ASYNC251
        task = asyncio.create_task(other())
        for client in strangers:
            assert (await answer(client))[8:10] == FAILURE
        task.cancel()
    assert len(steps) == len(set(steps)) == len(strangers)


async def test_an_exchange_that_stops_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvmf.target.io.memory._OPEN_TIMEOUT", 0.1)
    async with running(config()) as target, raw(target) as client:
        client.send(OPEN)
        assert await answer(client) == AUTH_HEADER
        await ended(client)


async def test_the_key_is_not_enough_without_permission() -> None:
    allowed = config().replace(f'memory = ["{HOST}"]', f'memory = ["{OTHER}"]')
    async with running(allowed) as target:
        with pytest.raises(OSError, match="is not exported as memory to"):
            await opened(target, dhchap_secret=KEY)


async def test_roce() -> None:
    """The longest messages are more than one packet there; bytes of RDMA are not counted."""
    address = own_address()
    keys = f'{BOTH}dhchap_hashes = ["sha512"]\ndhchap_dhgroups = ["ffdhe8192"]\n'
    async with running(over_roce(address, config(keys))) as target:
        found: dict[str, Any] = {"dhchap_secret": KEY, "dhchap_ctrl_secret": CTRL_KEY}
        found |= {"device": "roce", "host_traddr": address}
        async with await opened(target, **found) as memory:
            await memory.write(0, b"over UDP")
            assert await memory.read(0, 8) == b"over UDP"
            (one,) = target._server.memory.describe()
            assert (one["persists"], one["written_bytes"]) == (1, None)
            (sample,) = target._server.memory.samples()
            assert "written_bytes" not in sample.stats
