# SPDX-License-Identifier: BSD-3-Clause
"""Files that an administrator names, on a file system that hangs: the target keeps working."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
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
HOST = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000aa"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Reads do not return before the event is set."""
    monkeypatch.setattr(files, "READ_TIMEOUT", 0.05)
    answers = threading.Event()
    yield answers
    answers.set()


def slow(answers: threading.Event) -> None:
    assert answers.wait(PATIENCE)


async def test_key_files(hanging: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(config: SubsystemConfig) -> dict[str, HostKeys]:
        slow(hanging)
        return {}

    async with running() as lab:
        monkeypatch.setattr(stores, "host_keys", slowly)
        nqn = f"{A}-more"
        more = loads(f'{BASE}\n[[subsystem]]\nnqn = "{nqn}"\nhosts = ["{HOST}"]\n')
        for _ in range(files._READS_AT_ONCE + 1):  # one more than there are threads
            with pytest.raises(ServerError, match=r"cannot read key files within 0\.05 s"):
                await lab.server.apply(more)
        assert nqn not in lab.server.core.subsystems
        assert A in lab.server.core.subsystems
        hanging.set()
        async with asyncio.timeout(PATIENCE):
            while nqn not in lab.server.core.subsystems:
                try:
                    await lab.server.apply(more)
                except ServerError:  # its threads have not ended yet
                    continue


async def test_the_configuration(
    hanging: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(BASE)
    _, source = Source.read(path)
    read = Source.read

    def slowly(path: Path) -> tuple[Config, Source]:
        slow(hanging)
        return read(path)

    async with running() as lab:
        administration = Administration(lab.server, source)
        monkeypatch.setattr(administration_module.Source, "read", slowly)
        with pytest.raises(ServerError, match=r"target\.toml within 0\.05 s"):
            await administration.reload()
        hanging.set()
        async with asyncio.timeout(PATIENCE):
            assert (await administration.reload()).ignored == []


async def test_state_of_namespaces(
    hanging: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = state.read

    def slowly(path: Path) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        slow(hanging)
        return real(path)

    async with running(state=tmp_path) as lab:
        monkeypatch.setattr(state, "read", slowly)
        more = loads(f"{BASE}{subsystem(f'{A}-more', ram(1))}")
        with pytest.raises(ServerError, match=r"cannot read the stored state of new namespaces"):
            await lab.server.apply(more)
        assert f"{A}-more" not in lab.server.core.subsystems
        assert len([store for store in lab.engine.stores if not store.closed]) == 2
        hanging.set()
        async with asyncio.timeout(PATIENCE):
            while f"{A}-more" not in lab.server.core.subsystems:
                with contextlib.suppress(ServerError):
                    await lab.server.apply(more)
