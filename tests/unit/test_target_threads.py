# SPDX-License-Identifier: BSD-3-Clause
"""Work that blocks: a disk that hangs, or an error, delays only the operations that wait for it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from nvmf.target.io.storage import Storage
from nvmf.target.lasting.healthkeeper import HealthKeeper
from nvmf.target.lasting.threads import Threads
from nvmf.target.model.namespace import Namespace

HANG = 60


class Disk:
    """A disk whose calls hang until it is repaired."""

    def __init__(self) -> None:
        self._mended = threading.Event()
        self._lock = threading.Lock()
        self.calls = 0

    def hang(self) -> None:
        with self._lock:
            self.calls += 1
        self._mended.wait(HANG)

    def mend(self) -> None:
        self._mended.set()


@pytest.fixture
def disk() -> Iterator[Disk]:
    one = Disk()
    yield one
    one.mend()


class Spaces:
    """Any number of namespaces: Storage.work() only tells them apart."""

    def __getitem__(self, nsid: int) -> Namespace:
        return cast(Namespace, type("Space", (), {"nsid": nsid})())


async def reached(condition: Any) -> None:
    async with asyncio.timeout(HANG):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_state_files_that_hang(disk: Disk, tmp_path: Path) -> None:
    """Twenty of them block neither health nor other users of threads."""
    health = HealthKeeper(tmp_path)
    storage = Storage(cast(Any, None), cast(Any, None), health)
    done: list[OSError | None] = []
    spaces = Spaces()
    for nsid in range(1, 21):
        storage.work(spaces[nsid], disk.hang, done.append)
    await reached(lambda: disk.calls == 8)
    async with asyncio.timeout(HANG):
        health.power_on("nqn.2014-08.org.example:one")
        assert await health.save()
        assert await asyncio.to_thread(lambda: 5) == 5
    assert (tmp_path / "health.json").exists()
    assert (disk.calls, done) == (8, [])
    disk.mend()
    await reached(lambda: len(done) == 20)
    assert done == [None] * 20


async def test_a_mistake_is_an_error_of_the_change(caplog: pytest.LogCaptureFixture) -> None:
    """The waiting operation gets the exception, so that those after it are served."""
    storage = Storage(cast(Any, None), cast(Any, None), HealthKeeper())
    done: list[OSError | None] = []

    def mistake() -> None:
        raise KeyError("a mistake")

    storage.work(Spaces()[7], mistake, done.append)
    await reached(lambda: done)
    assert done[0] is not None
    assert done[0].errno == errno.EIO
    assert "KeyError: 'a mistake'" in str(done[0])
    assert "namespace 7: a change was not stored" in caplog.text


async def test_results_and_exceptions_come_back() -> None:
    threads = Threads("test", 2)
    assert await threads.run(lambda: threading.current_thread().name) == "nvmf-test"
    with pytest.raises(FileNotFoundError):
        await threads.run(Path("/nonexistent/file").read_text)


async def test_who_gives_up_does_not_free_a_thread(disk: Disk) -> None:
    threads = Threads("test", 1)
    first = asyncio.create_task(threads.run(disk.hang))
    await reached(lambda: disk.calls == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(threads.run(lambda: 2))
    await asyncio.sleep(0)
    assert not second.done()
    disk.mend()
    async with asyncio.timeout(HANG):
        assert await second == 2
