# SPDX-License-Identifier: BSD-3-Clause
"""Files that an administrator names, on a file system that hangs: the target keeps working."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from nvmf.auth import HostKeys
from nvmf.config import Config, loads
from nvmf.config.models import SubsystemConfig
from nvmf.target.io import files, stores
from nvmf.target.io.stores import ServerError
from nvmf.target.lasting import state
from nvmf.target.service import administration as administration_module
from nvmf.target.service.administration import Administration, Source
from support.changelab import BASE, A, ram, running, subsystem

PATIENCE = 60.0
"""Seconds: ends a hang."""
SHORT = 0.05
HOST = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000aa"


class Hang:
    """Reads that do not return before answer(); meanwhile the target waits for SHORT seconds."""

    def __init__(self) -> None:
        self._answers = threading.Event()
        self._patch = pytest.MonkeyPatch()

    def begin(self) -> None:
        """Make the target impatient."""
        self._patch.setattr(files, "READ_TIMEOUT", SHORT)

    def wait(self) -> None:
        """Return after answer(); for the thread that reads."""
        assert self._answers.wait(PATIENCE)

    def answer(self) -> None:
        """End the hang; reads may then take their time, as on a busy machine."""
        self._patch.undo()
        self._answers.set()


@pytest.fixture
def hanging() -> Iterator[Hang]:
    hang = Hang()
    yield hang
    hang.answer()


async def refused(change: Callable[[], Awaitable[object]], words: str) -> None:
    """Make a change until it fails with these words: on a busy machine others can be first."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with pytest.raises(ServerError) as caught:
                await change()
            if f"{words} within {SHORT:g} s" in str(caught.value):
                return


async def test_key_files(hanging: Hang, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(config: SubsystemConfig) -> dict[str, HostKeys]:
        hanging.wait()
        return {}

    async with running() as lab:
        monkeypatch.setattr(stores, "host_keys", slowly)
        hanging.begin()
        nqn = f"{A}-more"
        more = loads(f'{BASE}\n[[subsystem]]\nnqn = "{nqn}"\nhosts = ["{HOST}"]\n')
        for _ in range(files._READS_AT_ONCE + 1):  # one more than there are threads
            await refused(partial(lab.server.apply, more), "cannot read key files")
        assert nqn not in lab.server.core.subsystems
        assert A in lab.server.core.subsystems
        hanging.answer()
        async with asyncio.timeout(PATIENCE):
            while nqn not in lab.server.core.subsystems:
                try:
                    await lab.server.apply(more)
                except ServerError:  # its threads have not ended yet
                    continue


async def test_the_configuration(
    hanging: Hang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(BASE)
    _, source = Source.read(path)
    read = Source.read

    def slowly(path: Path) -> tuple[Config, Source]:
        hanging.wait()
        return read(path)

    async with running() as lab:
        administration = Administration(lab.server, source)
        monkeypatch.setattr(administration_module.Source, "read", slowly)
        hanging.begin()
        await refused(administration.reload, "target.toml")
        hanging.answer()
        async with asyncio.timeout(PATIENCE):
            assert (await administration.reload()).ignored == []


async def test_state_of_namespaces(
    hanging: Hang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = state.read

    def slowly(path: Path) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        hanging.wait()
        return real(path)

    async with running(state=tmp_path) as lab:
        monkeypatch.setattr(state, "read", slowly)
        more = loads(f"{BASE}{subsystem(f'{A}-more', ram(1))}")
        hanging.begin()
        await refused(
            partial(lab.server.apply, more), "cannot read the stored state of new namespaces"
        )
        assert f"{A}-more" not in lab.server.core.subsystems
        assert len([store for store in lab.engine.stores if not store.closed]) == 2
        hanging.answer()
        async with asyncio.timeout(PATIENCE):
            while f"{A}-more" not in lab.server.core.subsystems:
                with contextlib.suppress(ServerError):
                    await lab.server.apply(more)


async def test_state_that_is_stored_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of other namespaces may be stored while that of a new one is read."""
    real = state.read
    async with running(state=tmp_path) as lab:
        one = lab.server.core.subsystems[A]
        other = next(iter(one.namespaces.values())).identity.uuid
        stored = one.reservations.files
        assert stored is not None
        reads = []

        def busy(path: Path) -> bytes:
            reads.append(threading.current_thread() is threading.main_thread())
            stored.put(other, b"{}")
            return real(path)

        monkeypatch.setattr(state, "read", busy)
        await lab.server.apply(loads(f"{BASE}{subsystem(f'{A}-more', ram(1))}"))
        assert f"{A}-more" in lab.server.core.subsystems
    assert reads
    assert not any(reads)
