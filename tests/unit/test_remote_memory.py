# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory over real sockets of the embedded device: methods, rules, fencing."""

from __future__ import annotations

import asyncio
import re
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvmf import engine
from nvmf.config import loads
from nvmf.initiator import connect
from nvmf.initiator.base.identity import host_identity
from nvmf.pmem import Method
from nvmf.pmem.block import BlockMethod
from nvmf.pmem.platform import METHODS, MethodRefused, assumptions
from nvmf.pmem.remote import RemoteMemory
from nvmf.spec.memory import Opened, Platform
from nvmf.spec.reservations import ReservationType
from support import documents
from support.memorylab import CONFIG, HOST, OTHER, READER, memory_of, opened, over_roce, running
from support.roce import own_address

# ---- methods ----


@pytest.mark.parametrize("method", ["write-read", "write-send"])
async def test_writes_and_reads(method: str) -> None:
    """NVMe commands read the bytes that were written by RDMA, and the reverse."""
    async with (
        running() as target,
        await opened(target, method=method, depth=4, slot_bytes=4096) as memory,
    ):
        assert isinstance(memory, Method)
        assert (memory.name, memory.size) == (method, 4 << 20)
        assert memory.assumes
        data = bytes(range(256)) * 100
        await memory.write(12345, data)
        assert await memory.read(12345, len(data)) == data
        await memory.write(0, b"")
        assert await memory.read(0, 0) == b""
        await memory.write(memory.size - 1, b"!")
        async with connect(target.url, hostnqn=HOST) as controller:
            disk = controller.namespace(1)
            assert await disk.pread(len(data), 12345) == data
            await disk.write(0, b"x" * 512)
        assert await memory.read(500, 12) == b"x" * 12
        with pytest.raises(ValueError, match="not in a range"):
            await memory.write(memory.size, b"1")


@pytest.mark.parametrize("method", ["write-flush", "write-read", "write-send"])
async def test_methods_on_roce(method: str) -> None:
    """FLUSH is available; more operations are outstanding than the queue pair has READs."""
    there: dict[str, Any] = {"device": "roce", "host_traddr": own_address(), "method": method}
    async with (
        running(over_roce(own_address())) as target,
        await opened(target, depth=64, slot_bytes=4096, **there) as memory,
    ):
        assert memory.flushes
        data = bytes(range(256)) * 4000
        await asyncio.gather(*(memory.write(n, data[n : n + 1000]) for n in range(0, 64000, 1000)))
        assert await memory.read(0, 64000) == data[:64000]
        await memory.write(12345, data)
        assert await memory.read(12345, len(data)) == data


async def test_a_device_without_flush() -> None:
    async with running() as target:
        with pytest.raises(MethodRefused, match="write-flush needs RDMA FLUSH, which the iwarp"):
            await opened(target, method="write-flush")
        async with await opened(target) as memory:
            assert not memory.flushes


async def test_many_at_once() -> None:
    async with running() as target, await opened(target, depth=8, slot_bytes=512) as memory:
        blocks = [bytes([n]) * 1000 for n in range(200)]
        await asyncio.gather(*(memory.write(n * 1000, b) for n, b in enumerate(blocks)))
        found = await asyncio.gather(*(memory.read(n * 1000, 1000) for n in range(200)))
        assert list(found) == blocks


async def test_a_cancelled_write_leaves_the_connection_usable() -> None:
    async with running() as target, await opened(target, depth=1) as memory:
        for _ in range(20):
            task = asyncio.create_task(memory.write(0, bytes(60000)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await memory.write(8, b"after")
        assert await memory.read(8, 5) == b"after"


@pytest.mark.parametrize("method", ["nvme-fua", "nvme-write-flush"])
async def test_block_methods(method: str) -> None:
    async with running() as target, connect(target.url, hostnqn=HOST) as controller:
        made = BlockMethod(controller.namespace(1), method)  # type: ignore[arg-type]
        assert isinstance(made, Method)
        await made.write(4096, b"a" * 4096)
        assert await made.read(4090, 8) == b"\0" * 6 + b"aa"
        assert made.size == 4 << 20
        await made.close()


async def test_a_method_whose_assumption_does_not_hold_is_refused() -> None:
    """RAM is lost with power, and its target reports that."""
    assert all(assumptions(method) for method in METHODS)
    async with running() as target:
        with pytest.raises(MethodRefused, match="does not confirm that the range is on media"):
            await opened(target, force=False)
        async with await opened(target) as memory:
            assert len(memory.unmet) == 2


async def test_a_method_that_there_is_not() -> None:
    async with running() as target:
        for method in ("nvme-fua", "write-forget"):
            with pytest.raises(ValueError, match=f"'{method}' is not a method of remote memory"):
                await opened(target, method=method)
        assert not memory_of(target)


async def test_a_target_without_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target does not report that its processor makes ranges persistent: write-send is
    refused.
    """
    real = Opened.decode

    def decode(data: bytes) -> Opened:
        return replace(real(data), platform=int(Platform.MEDIA | Platform.PLACED))

    monkeypatch.setattr(Opened, "decode", decode)
    async with running() as target:
        match = "does not support write-send: the target does not confirm that the target's"
        with pytest.raises(MethodRefused, match=match):
            await opened(target, force=False)
        async with await opened(target, method="write-read", force=False) as memory:
            await memory.write(0, b"1")


async def test_a_file_of_tmpfs_is_memory_without_persistence(tmp_path: Path) -> None:
    """A file on tmpfs survives the target, but not a power failure."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "pmem"
        path.write_bytes(bytes(4 << 20))
        async with running(CONFIG.replace('"ram"', f'"pmem"\npath = "{path}"')) as target:
            with pytest.raises(MethodRefused, match="keep their content without power"):
                await opened(target, force=False)
            async with await opened(target) as memory:
                await memory.write(4096, b"kept")
                assert path.read_bytes()[4096:4100] == b"kept"
                counts = target._server.memory.describe()[0]
                assert (counts["persists"], counts["persisted_bytes"]) == (1, 4)
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(4 << 20))
    async with running(CONFIG.replace('"ram"', f'"pmem"\npath = "{disk}"')) as target:
        with pytest.raises(OSError, match=r"not mapped memory|keep their content"):
            await opened(target, force=False)


# ---- who may ----


@pytest.mark.parametrize(
    ("host", "options", "match"),
    [
        (OTHER, {}, "is not exported as memory to"),
        ("nqn.2026-01.example:stranger", {}, "may not connect to"),
        (READER, {}, "may only read namespace 1"),
        (HOST, {"nsid": 2}, "has no namespace 2"),
    ],
)
async def test_refused(host: str, options: dict[str, object], match: str) -> None:
    async with running() as target:
        with pytest.raises(OSError, match=match):
            await opened(target, host, **options)
        async with await opened(target) as memory:  # the other hosts are not affected
            await memory.write(0, b"1")


async def test_a_target_without_exported_memory_refuses_the_connection() -> None:
    config = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("memory"))
    async with running(config) as target:
        with pytest.raises(OSError, match="it exports no memory"):
            await opened(target)


async def test_a_reader_reads_only() -> None:
    """A WRITE with its key ends its connection, and changes nothing."""
    async with running() as target, await opened(target) as writer:
        await writer.write(0, b"original")
        async with await opened(target, READER, read_only=True) as reader:
            assert await reader.read(0, 8) == b"original"
            with pytest.raises(PermissionError, match="opened for reading only"):
                await reader.write(0, b"changed!")
            assert await reader.read(0, 8) == b"original"
            reader.read_only = False  # like a host that does not check
            with pytest.raises(OSError, match="lost: the peer sent TERMINATE"):
                await reader.write(0, b"changed!")
            with pytest.raises(OSError, match="lost"):
                await reader.read(0, 8)
        assert await writer.read(0, 8) == b"original"


# ---- fencing ----


async def lost(memory: RemoteMemory) -> None:
    """The error message after the end of a key; all later calls report it."""
    for _ in range(2):
        with pytest.raises(OSError, match=r"was lost: .*may no longer use the memory \(revoked"):
            await memory.write(0, b"too late")


async def test_revocation_is_a_fence() -> None:
    """No data of a host that writes at full speed arrives after revoke() has returned."""
    async with running() as target, await opened(target, depth=32) as memory:
        written, busy = 0, asyncio.Event()

        async def keep_writing() -> None:
            nonlocal written
            while True:
                written += 1
                if written == 500:
                    busy.set()
                await memory.write(0, struct.pack("<Q", written) * 512)

        writers = asyncio.gather(*(keep_writing() for _ in range(16)), return_exceptions=True)
        await busy.wait()
        service = target._server.memory
        assert await service.revoke(lambda one: one["hostnqn"] == HOST, "revoked") == 1
        async with await opened(target, READER, read_only=True) as reader:
            before = await reader.read(0, 4096)
            assert all(isinstance(end, OSError) for end in await writers)
            await lost(memory)
            assert await reader.read(0, 4096) == before
            assert memory_of(target) == [(READER, "read-only")]


async def test_a_reservation_fences_memory() -> None:
    async with running() as target:
        memory = await opened(target)
        async with connect(target.url, hostnqn=OTHER) as controller:
            disk = controller.namespace(1)
            await disk.reservations.register(1)
            await disk.reservations.acquire(1, ReservationType.WRITE_EXCLUSIVE)
            assert not memory_of(target)  # when the command has completed
            await disk.write(0, b"o" * 512)
            await lost(memory)
            with pytest.raises(OSError, match="a reservation of namespace 1 excludes the host"):
                await opened(target)
            async with await opened(target, READER, read_only=True) as reader:
                assert await reader.read(0, 8) == b"o" * 8
                await disk.reservations.release(1, ReservationType.WRITE_EXCLUSIVE)
                async with await opened(target) as again:
                    await again.write(0, b"again")
                assert await reader.read(0, 5) == b"again"
        await memory.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f'memory = ["{HOST}"]', f'memory = ["{OTHER}"]'),
        (f'hosts = ["{HOST}", ', "hosts = ["),
        ('store = "ram"', f'hosts = ["{OTHER}"]\nstore = "ram"'),
        ('"4MiB"', '"2MiB"'),
        ("nsid = 1", "nsid = 3"),
    ],
    ids=["memory", "allowed", "mask", "resize", "removal"],
)
async def test_a_change_of_the_configuration_fences(old: str, new: str) -> None:
    async with running() as target:
        memory = await opened(target)
        await memory.write(0, b"1")
        await target._server.apply(loads(CONFIG.replace(old, new, 1)))
        await lost(memory)
        assert not memory_of(target)
        await memory.close()


async def test_a_stopped_target_loses_its_hosts() -> None:
    async with running() as target:
        memory = await opened(target)
    await lost(memory)
    await memory.close()


async def test_write_protection_fences_memory(tmp_path: Path) -> None:
    async with running(folder=tmp_path) as target:
        memory = await opened(target)
        async with connect(target.url, hostnqn=OTHER) as controller:
            await controller.set_features(0x84, 1, nsid=1)
            assert not memory_of(target)  # when the command has completed
        await lost(memory)
        with pytest.raises(OSError, match="namespace 1 is write protected"):
            await opened(target)
        async with await opened(target, read_only=True) as reader:
            assert await reader.read(0, 1) == b"\0"
        await memory.close()


async def test_a_target_that_does_not_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread for memory does not poll either: that would take processors from others."""
    made: list[dict[str, int]] = []

    def make(**options: int) -> engine.MemoryServer:
        made.append(options)
        return server(**options)

    server = engine.MemoryServer
    monkeypatch.setattr(engine, "MemoryServer", make)
    for setting in ("[target]\nspin_us = 0\n", ""):
        async with running(setting + CONFIG) as target, await opened(target) as memory:
            await memory.write(0, b"x" * 512)
            assert await memory.read(0, 512) == b"x" * 512
    assert made == [{"spin_us": 0}, {"spin_us": 200}]


async def test_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document's example, with a target that declares RAM persistent."""
    monkeypatch.setattr("nvmf.pmem.remote.unmet", lambda method, platform: ())
    (example,) = documents.blocks("Methods", "python", documents.REMOTE_MEMORY)
    config = CONFIG.replace(HOST, host_identity().nqn)
    async with running(config) as target:
        program, changed = re.subn(
            "^URL = .*$", f'URL = "{target.url}"', example, flags=re.MULTILINE
        )
        assert changed == 1
        await asyncio.to_thread(exec, program, {})


# ---- memory that fails ----


@pytest.mark.parametrize(
    ("device", "method"),
    [
        ("iwarp", "write-read"),
        ("iwarp", "write-send"),
        ("roce", "write-read"),
        ("roce", "write-flush"),
    ],
)
async def test_a_write_to_memory_that_has_failed_is_not_answered_as_persistent(
    device: str, method: str
) -> None:
    """The file is truncated: its pages raise SIGBUS, as bad memory does."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "pmem"
        path.write_bytes(bytes(4 << 20))
        text = CONFIG.replace('"ram"', f'"pmem"\npath = "{path}"\npower_fail_atomic = false')
        there: dict[str, Any] = {"method": method}
        if device == "roce":
            text = over_roce(own_address(), text)
            there |= {"device": "roce", "host_traddr": own_address()}
        async with running(text) as target:
            memory = await opened(target, **there)
            try:
                await memory.write(0, b"1" * 4096)
                with path.open("r+b") as file:
                    file.truncate(1 << 20)
                with pytest.raises(OSError):
                    await memory.write(3 << 20, b"2" * 4096)
            finally:
                await memory.close()
            async with await opened(target, **there) as memory:
                with pytest.raises(OSError):
                    await memory.write(0, b"3" * 4096)
