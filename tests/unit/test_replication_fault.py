# SPDX-License-Identifier: BSD-3-Clause
"""A fault of this program in the core of a mirror or log: every caller learns it, and it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import nvmf.target
from nvmf.initiator import NvmeError, connect
from nvmf.replication import Log, LogState, Mirror, MirrorState, ReplicationError
from nvmf.replication.managed import ManagedMirror
from nvmf.target.io.storethread import PythonStore
from support.mirrorlab import clean, mirror_text, state_of, until
from support.replicas import Memory, files

PAGE = b"\x5a" * 4096
FAULT = "replication has stopped after an internal error: AssertionError"


def memory() -> list[Memory]:
    return [Memory(1 << 20) for _ in range(3)]


def fails(*_: object) -> None:
    raise AssertionError("this cannot be")


async def errors(*calls: asyncio.Task[object]) -> set[str]:
    """Return the first words of the errors with which calls end."""
    async with asyncio.timeout(60):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, ReplicationError) for error in ended)
    return {str(error)[: len(FAULT)] for error in ended}


def start(*calls: object) -> list[asyncio.Task[object]]:
    return [asyncio.create_task(call) for call in calls]  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["evaluate", "tick", "submit"])
async def test_a_mirror(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that wait end, later ones are refused, and a new Mirror has all data."""
    replicas = memory()
    async with Mirror(replicas, 2) as mirror:
        await mirror.create(region=64 << 10)
        await mirror.clean()
        await mirror.write(0, PAGE)
        for replica in replicas[1:]:
            replica.frozen.clear()
        waiting = start(mirror.write(4096, PAGE), mirror.write(1 << 19, PAGE))
        await asyncio.sleep(0)
        monkeypatch.setattr(mirror._core, step, fails)
        one = start(mirror.write(8192, PAGE))
        if step == "evaluate":  # it is called when a replica answers
            for replica in replicas:
                replica.frozen.set()
        assert await errors(*waiting, *one) == {FAULT}
        assert mirror.state is MirrorState.CLOSED
        calls = start(mirror.read(0, 4096), mirror.clean(), mirror.rejoin(1))
        assert await errors(*calls) == {FAULT}
    for replica in replicas:
        replica.frozen.set()
    async with Mirror(replicas, 2) as again:
        await again.open()
        assert await again.read(0, 4096) == PAGE
        await again.write(4096, PAGE)
        await again.clean()


async def test_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Log(memory(), 2) as log:
        await log.create()
        await log.append(b"one")
        monkeypatch.setattr(log._core, "progress", fails)
        assert await errors(*start(*(log.append(b"two") for _ in range(9)))) == {FAULT}
        assert log.state is LogState.BROKEN
        assert await errors(*start(log.append(b"three"), log.truncate(0))) == {FAULT}
        await log.recover()
        await log.append(b"four")
        found = [record async for _, record in log.records()]
        assert (found[0], found[-1]) == (b"one", b"four")


async def test_what_cannot_be_begun_is_no_fault() -> None:
    async with Mirror(memory(), 2) as mirror:
        await mirror.create(region=64 << 10)
        with pytest.raises(ValueError, match="two writes overlap"):
            await mirror.write_many([0, 0], PAGE * 2)
        await mirror.write(0, PAGE)
        assert await mirror.read(0, 4096) == PAGE


async def test_a_mirror_as_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Commands fail, the log says what to do, and `nvmeof target mirror resync` does it."""
    legs = [f'path = "{path}"' for path in files(tmp_path, 3, 4 << 20)]
    target = await nvmf.target.serve(mirror_text(legs))
    try:
        await clean(target, 3)
        (store,) = target._server.storage._stores.values()
        assert isinstance(store, PythonStore)
        managed = store.mirror
        assert isinstance(managed, ManagedMirror)
        assert managed._mirror is not None
        async with connect(target.url) as controller:
            disk = controller.namespace(1)
            await disk.write(0, PAGE)
            monkeypatch.setattr(managed._mirror._core, "evaluate", fails)
            with pytest.raises(NvmeError, match="Internal Error"):
                await disk.write(8, PAGE)
            await until(lambda: state_of(target)["state"] == "closed")
            assert "run nvmeof target mirror resync" in caplog.text
            await asyncio.to_thread(store._call, managed.resync(), 60)
            await clean(target, 3)
            assert await disk.read(0, 8) == PAGE
            await disk.write(8, PAGE)
    finally:
        await target.stop()
