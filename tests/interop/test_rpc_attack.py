# SPDX-License-Identifier: BSD-3-Clause
"""Whatever a client of the administration socket does, the I/O of a connected host continues.

Invariant: each request is answered, the log has no traceback, and the host's Keep Alives, which
the same thread answers, are never so late that it reconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nvmf.initiator import connect
from support.clientlab import OPTIONS, url
from support.livelab import HANG, busy
from support.served import Served

A, B = "nqn.2026-11.io.example:a", "nqn.2026-11.io.example:b"
SPACE = '[[subsystem.namespace]]\nnsid = 1\nstore = "ram"\nsize = "4MiB"\n'
TARGET_CONFIG = f'[[port]]\ntrsvcid = 0\ndevice = "iwarp"\n[[subsystem]]\nnqn = "{A}"\n'
TARGET_CONFIG += f"allow_any_host = true\n{SPACE}"
KATO = 30.0
"""Seconds: a thread that blocks for this long is detected; a busy machine is not mistaken for
one.
"""


class Client:
    """A connection to the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> Any:
        """The next answer."""
        async with asyncio.timeout(HANG):
            return json.loads(await self.reader.readline())

    async def ask(self, method: str, **params: Any) -> Any:
        self.writer.write(request(method, **params))
        return await self.read()

    async def refused(self, method: str, **params: Any) -> str:
        """Return the sentence of the refusal."""
        answer = await self.ask(method, **params)
        assert "failed inside the target" not in answer["error"]["message"], answer
        return str(answer["error"]["message"])


def request(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


@asynccontextmanager
async def asking(served: Served) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_unix_connection(served.rpc_socket, limit=1 << 25)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def undisturbed(served: Served) -> AsyncIterator[None]:
    """A host that writes and verifies during a test, without reconnecting."""
    async with connect(url(served.port, A), **OPTIONS, kato=KATO) as host:
        async with busy(host):
            yield
        assert host.reconnects == 0


async def test_paths_that_never_end(served: Served, tmp_path: Path) -> None:
    """A pipe without a writer, and devices, in place of every file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with undisturbed(served), asking(served) as client:
        for path in (pipe, "/dev/zero", tmp_path):
            said = await client.refused("keyring_file_add_key", name="k", path=str(path))
            assert "not a regular file" in said or "Is a directory" in said
            table = {"nqn": f"{A}-host", "dhchap_key_file": str(path)}
            await client.refused("target_add_host", nqn=A, host=table)
            for store in ("file", "pmem"):
                space = {"store": store, "path": str(path)}
                await client.refused("nvmf_subsystem_add_ns", nqn=A, namespace=space)
        config = served.folder / "target.toml"
        config.unlink()
        for put in (os.mkfifo, os.mkdir):
            put(config)
            assert "not a regular file, so it cannot be reloaded" in await client.refused(
                "target_reload"
            )
            config.rmdir() if config.is_dir() else config.unlink()
        assert "cannot be read" in await client.refused("target_reload")


HUGE = 10**30
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {"store": "ram", "size": HUGE}}),
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {"store": "null", "size": 1 << 64}}),
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {"store": "ram", "size": 1 << 62}}),
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {"store": "ram", "size": "9" * 5000}}),
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {"store": "file", "path": "/a\0b"}}),
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {"store": "file", "path": "a" * 300_000}}),
    ("nvmf_subsystem_add_ns", {"nqn": A, "namespace": {str(n): n for n in range(50_000)}}),
    ("target_resize_ns", {"nqn": A, "nsid": 1, "size": HUGE}),
    ("target_resize_ns", {"nqn": A, "nsid": HUGE, "size": 4096}),
    ("target_mask_ns", {"nqn": A, "nsid": 1, "hosts": [1] * 300_000}),
    ("target_mask_ns", {"nqn": A, "nsid": 1, "hosts": [A] * 20_000}),
    ("target_mask_ns", {"nqn": A, "nsid": -1}),
    ("target_set_ns_limits", {"nqn": A, "nsid": 1, "limits": {"iops": HUGE}}),
    ("target_set_ns_limits", {"nqn": A, "nsid": 1, "limits": {"bandwidth": HUGE}}),
    ("target_set_ns_limits", {"nqn": A, "nsid": 1, "limits": {"burst_ms": HUGE}}),
    ("bdev_set_qos_limit", {"name": "ram", "rw_mbytes_per_sec": HUGE}),
    ("bdev_set_qos_limit", {"name": "ram", "rw_ios_per_sec": -1}),
    ("target_add_port", {"port": {"traddr": "203.0.113.1", "trsvcid": 4420, "device": "iwarp"}}),
    ("target_add_port", {"port": {"traddr": "127.0.0.1", "trsvcid": HUGE}}),
    ("target_add_port", {"port": {"traddr": "127.0.0.1", "device": "system"}}),
    ("target_remove_port", {"traddr": "127.0.0.1", "trsvcid": HUGE}),
    ("nvmf_subsystem_add_listener",
     {"nqn": A, "listen_address": {"traddr": "127.0.0.1", "trsvcid": "9" * 5000}}),
    ("nvmf_subsystem_add_listener",
     {"nqn": A, "listen_address": {"traddr": "x" * 500_000, "trsvcid": "4420"}}),
    ("nvmf_create_subsystem", {"nqn": "nqn." + "x" * 500_000}),
    ("nvmf_create_subsystem", {"nqn": A, "max_namespaces": HUGE}),
    ("nvmf_create_subsystem", {"nqn": B, "serial_number": "\u00e9"}),
    ("nvmf_subsystem_add_host", {"nqn": A, "host": "\0"}),
    ("nvmf_subsystem_remove_ns", {"nqn": B * 10_000, "nsid": 1}),
    ("target_protect_ns", {"nqn": A, "nsid": 1, "state": "x" * 500_000}),
    ("nvmf_subsystem_add_host", {"nqn": "key" * 300_000, "host": "secret" * 10}),
]  # fmt: skip


async def test_wrong_values(served: Served) -> None:
    """Each value is refused with a message of limited length, and changes nothing."""
    async with undisturbed(served), asking(served) as client:
        before = await client.ask("target_get_config")
        for method, params in WRONG:
            said = await client.refused(method, **params)
            assert 0 < len(said) < 2000, (method, len(said))
        assert await client.ask("target_get_config") == before


async def test_too_much_of_what_is_right(served: Served) -> None:
    """Many valid requests at once, as a batch and in a row; clients that do not read, or do not
    end.
    """
    one = request("target_get_tree")
    async with undisturbed(served), contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(asking(served))
        client.writer.write(b"[" + b",".join([one] * 64) + b"]")
        assert len(await client.read()) == 64
        client.writer.write(b"[" + b",".join([one] * 65) + b"]")
        assert "at most 64 requests" in (await client.read())["error"]["message"]
        for _ in range(10):
            idle = await stack.enter_async_context(asking(served))
            idle.writer.write(b'{"jsonrpc": "2.0", "method": "' + b"x" * 100_000)
            greedy = await stack.enter_async_context(asking(served))
            greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            greedy.writer.write(one * 1000)
        client.writer.write(one * 1000)
        for _ in range(1000):
            assert "result" in await client.read()


async def test_changes_that_conflict(served: Served) -> None:
    """Many clients change the same objects at once: each is answered, and the state is
    consistent.
    """
    space = {"store": "ram", "size": "1MiB", "nsid": 2}

    async def change(number: int) -> None:
        async with asking(served) as client:
            for _ in range(5):
                await client.ask("nvmf_create_subsystem", nqn=B)
                await client.ask("nvmf_subsystem_add_ns", nqn=B, namespace=space)
                await client.ask("nvmf_subsystem_add_ns", nqn=A, namespace=space)
                await client.ask("target_resize_ns", nqn=A, nsid=2, size=(number + 1) << 20)
                await client.ask("target_mask_ns", nqn=A, nsid=2, hosts=[f"{A}-{number}"])
                await client.ask("nvmf_subsystem_remove_ns", nqn=A, nsid=2)
                await client.ask("nvmf_delete_subsystem", nqn=B)
                await client.ask("target_reload")

    async with undisturbed(served), asking(served) as client:
        await asyncio.gather(*(change(number) for number in range(6)))
        await client.ask("target_reload")
        tree = (await client.ask("target_get_tree"))["result"]
        left = {one["nqn"]: one.get("namespaces", []) for one in tree["subsystems"]}
        assert [one["nsid"] for one in left[A]] == [1]
        assert B not in left
