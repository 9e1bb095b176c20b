# SPDX-License-Identifier: BSD-3-Clause
"""The administration socket: requests, and clients that are wrong, slow, greedy or gone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nvmf.config import loads
from nvmf.paths import default_socket
from nvmf.target.io.stores import ServerError
from nvmf.target.rpc import socket as rpc_socket
from nvmf.target.rpc.framing import MESSAGE_MOST
from nvmf.target.rpc.registry import METHODS
from nvmf.target.rpc.socket import RpcSocket
from nvmf.target.service.administration import Administration
from nvmf.target.service.starting import serve
from support.fakeengine import FakeEngine
from support.served_lab import ServedLab

NQN = "nqn.2026-11.io.example:disk"
HOST = "nqn.2026-11.io.example:host"
TEXT = f"""
[[port]]
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""
HANG = 60


class Client:
    """A connection to the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def write(self, raw: bytes) -> None:
        self.writer.write(raw)

    async def read(self) -> Any:
        """The next response; None at the end."""
        async with asyncio.timeout(HANG):
            line = await self.reader.readline()
        return json.loads(line) if line else None

    async def ask(self, method: str, ident: object = 1, **params: Any) -> Any:
        self.write(request(method, ident, **params))
        return await self.read()

    async def result(self, method: str, **params: Any) -> Any:
        answer = await self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    async def refused(self, method: str, **params: Any) -> tuple[int, str]:
        answer = await self.ask(method, **params)
        return answer["error"]["code"], answer["error"]["message"]


def request(method: str, ident: object = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode()


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


class Lab(ServedLab):
    """A server on the engine that does nothing, and its socket."""

    def __init__(self, folder: Path) -> None:
        self.engine = FakeEngine()
        super().__init__(serve(loads(TEXT), engine=self.engine, listening=lambda _: None))
        self.administration: asyncio.Future[Administration] = asyncio.Future()
        self.rpc = RpcSocket(self.administration, folder / "t.sock")


@pytest.fixture
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("r"))
    async with made:
        made.administration.set_result(Administration(made.server))
        await made.rpc.start()
        yield made
        await made.rpc.close()


@pytest.fixture
async def client(lab: Lab) -> AsyncIterator[Client]:
    async with connected(lab.rpc.path) as made:
        yield made


# ---- the protocol ----


@pytest.mark.feature("rpc")
async def test_requests_back_to_back(client: Client) -> None:
    """As SPDK's clients send them: no separator is needed, and a newline is not one."""
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
    """They are answered, and the connection continues."""
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


async def test_a_long_answer_to_who_says_no_more(lab: Lab) -> None:
    """It is sent completely, although the client has closed its side and reads slowly."""
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


# ---- methods ----


@pytest.mark.feature("rpc")
async def test_subsystem_and_hosts(client: Client) -> None:
    assert await client.result("nvmf_create_subsystem", nqn=f"{NQN}2", serial_number="S1")
    found = await client.result("nvmf_get_subsystems", nqn=f"{NQN}2", tgt_name="any")
    assert (found[0]["serial_number"], found[0]["subtype"]) == ("S1", "NVMe")
    assert await client.refused("nvmf_create_subsystem", nqn=NQN) == (
        -32603, f"subsystem {NQN} already exists"
    )  # fmt: skip
    assert (await client.refused("nvmf_get_subsystems", nqn="nqn.2026-11.io.example:x"))[0] == -19
    assert await client.result("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    code, said = await client.refused("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    assert (code, said) == (-32603, f"{HOST} is already allowed to connect to {NQN}")
    assert await client.result("nvmf_subsystem_remove_host", nqn=NQN, host=HOST)
    assert await client.result("nvmf_subsystem_allow_any_host", nqn=NQN, allow_any_host=True)
    assert await client.result("nvmf_delete_subsystem", nqn=f"{NQN}2")
    assert (await client.refused("nvmf_delete_subsystem", nqn=f"{NQN}2"))[0] == -32602


@pytest.mark.feature("rpc", "live")
async def test_namespaces(client: Client, lab: Lab) -> None:
    space = {"store": "ram", "size": "1MiB", "uuid": "11111111-2222-3333-4444-555555555555"}
    assert await client.result("nvmf_subsystem_add_ns", nqn=NQN, namespace=space) == 2
    for wrong, said in (
        (space, "duplicate uuid 11111111-2222-3333-4444-555555555555"),
        ({"store": "ram", "size": 4096, "nsid": 2}, "namespace 2 already exists"),
        ({"store": "ram", "size": 4096, "nsid": 99}, "above max_namespaces = 32"),
        ({"store": "ram"}, "needs size"),
        ({"store": "rom"}, 'expected "ram"'),
        ({"bdev_name": "Malloc0"}, "there is no bdev Malloc0"),
    ):
        before = lab.server.config
        code, answer = await client.refused("nvmf_subsystem_add_ns", nqn=NQN, namespace=wrong)
        assert code == -32602
        assert said in answer
        assert lab.server.config is before
    assert await client.result("target_resize_ns", nqn=NQN, nsid=2, size="512KiB") == 512 << 10
    assert "no file" in (await client.refused("target_resize_ns", nqn=NQN, nsid=2))[1]
    lab.engine.resize_error = OSError(95, "it cannot grow")
    code, answer = await client.refused("target_resize_ns", nqn=NQN, nsid=2, size="2MiB")
    assert (code, f"cannot resize namespace 2 of {NQN}: it cannot grow" in answer) == (-32603, True)
    assert await client.result("target_mask_ns", nqn=NQN, nsid=2, hosts=[])
    assert await client.result("nvmf_ns_add_host", nqn=NQN, nsid=2, host=HOST)
    tree = await client.result("target_get_tree")
    assert tree["subsystems"][1]["namespaces"][1]["hosts"] == [HOST]
    assert await client.result("nvmf_ns_remove_host", nqn=NQN, nsid=2, host=HOST)
    assert await client.result("nvmf_subsystem_remove_ns", nqn=NQN, nsid=2)


@pytest.mark.feature("rpc", "live", "identifiers")
async def test_replaced_store_keeps_its_identifiers(client: Client, lab: Lab) -> None:
    before = lab.server.core.subsystems[NQN].namespaces[1]
    await client.result(
        "target_replace_ns", nqn=NQN, nsid=1, namespace={"store": "null", "size": "2MiB"}
    )
    after = lab.server.core.subsystems[NQN].namespaces[1]
    assert after is not before
    assert after.identity == before.identity
    assert after.store.size == 2 << 20


@pytest.mark.feature("rpc")
async def test_ports(client: Client) -> None:
    opened = await client.result(
        "target_add_port", port={"traddr": "127.0.0.1", "trsvcid": 4421, "device": "iwarp"}
    )
    assert opened == {"trtype": "RDMA", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "4421"}
    place = {"trtype": "RDMA", "traddr": "127.0.0.1", "trsvcid": "4421", "adrfam": "IPv4"}
    assert await client.result("nvmf_subsystem_add_listener", nqn=NQN, listen_address=place)
    listeners = await client.result("nvmf_subsystem_get_listeners", nqn=NQN)
    assert [one["address"]["trsvcid"] for one in listeners] == ["4420", "4421"]
    assert await client.result("nvmf_subsystem_remove_listener", nqn=NQN, listen_address=place)
    await client.result("target_remove_port", traddr="127.0.0.1", trsvcid=4420)
    assert await client.result("nvmf_subsystem_get_listeners", nqn=NQN) == []
    code, said = await client.refused("target_remove_port", traddr="127.0.0.1", trsvcid=4420)
    assert (code, "there is no port" in said) == (-32602, True)
    await client.result(
        "target_add_port", port={"traddr": "127.0.0.1", "trsvcid": 4420, "device": "iwarp"}
    )


async def test_what_is_asked_without_a_change(client: Client) -> None:
    stats = await client.result("nvmf_get_stats")
    assert stats["poll_groups"][0]["current_io_qpairs"] == 0
    (transport,) = await client.result("nvmf_get_transports")
    assert transport["trtype"] == "RDMA"
    assert await client.result("nvmf_subsystem_get_controllers", nqn=NQN) == []
    assert await client.result("nvmf_subsystem_get_qpairs", nqn=NQN) == []
    version = await client.result("spdk_get_version")
    assert version["version"].startswith("nvmeof-rdma")
    assert {"major", "minor", "patch", "suffix"} <= version["fields"].keys()
    config = await client.result("target_get_config")
    assert config["config"]["subsystem"][0]["nqn"] == NQN
    assert "without a configuration file" in (await client.refused("target_reload"))[1]


async def test_an_answer_that_cannot_be_written(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An internal error is reported, and the connection continues."""

    async def call(*_: object) -> object:
        return {(1, 2): 3}

    odd = dataclasses.replace(METHODS["spdk_get_version"], call=call)
    monkeypatch.setitem(METHODS, "spdk_get_version", odd)
    code, said = await client.refused("spdk_get_version")
    assert (code, said) == (-32603, "cannot encode the response")
    assert "cannot encode a response" in caplog.text
    assert await client.result("rpc_get_methods")


async def test_counters_after_refusals(client: Client, lab: Lab) -> None:
    events = lab.server.core.tally.events
    events.refused["No more queue pairs"] += 2
    events.connects_refused["Connect Invalid Host"] += 1
    found = (await client.result("target_get_counters"))["events"]
    assert found["refused"] == {"No more queue pairs": 2}
    assert found["connects_refused"] == {"Connect Invalid Host": 1}
    assert found["accepted"] == 0


async def test_who_changed_what_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await client.ask("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    await client.ask("nvmf_subsystem_add_host", nqn=NQN, host=HOST, dhchap_key="DHHC-1:00:x")
    who = f"user {os.geteuid()}, process {os.getpid()}"
    assert f"{who}: nvmf_subsystem_add_host" in caplog.text
    assert "refused" in caplog.text
    assert "DHHC" not in caplog.text
