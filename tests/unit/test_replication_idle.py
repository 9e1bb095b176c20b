# SPDX-License-Identifier: BSD-3-Clause
"""Replicas of a mirror that nobody uses: what becomes of them is noticed all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nvmf.config.mirror import LegConfig
from nvmf.config.models import NamespaceConfig
from nvmf.replication import FileReplica, Mirror, Replica
from nvmf.replication.machine import LegState
from nvmf.replication.managed import ManagedMirror
from nvmf.replication.mirrorbase import MirrorState
from support.replicas import Frozen, claim, files

HANG = 60


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def idle(tmp_path: Path, silence: float = 5.0) -> tuple[Mirror, list[Frozen]]:
    """Return a mirror with everything on three replicas."""
    replicas = [Frozen(path) for path in files(tmp_path)]
    mirror = Mirror(replicas, 2, timeout=silence, retry=0.02, resync_rate=None)
    await mirror.create()
    async with asyncio.timeout(HANG):
        await mirror.clean()
    await until(lambda: not mirror._core.written)
    return mirror, replicas


async def test_a_replica_that_fails_is_lost_without_a_write(tmp_path: Path) -> None:
    mirror, replicas = await idle(tmp_path)
    async with mirror:
        replicas[1].broken = True
        await until(lambda: mirror.state is MirrorState.DEGRADED)
        await until(lambda: mirror.replicas[1].state is LegState.OUT)
        assert "the cable is out" in mirror.replicas[1].why
        replicas[1].broken = False
        async with asyncio.timeout(HANG):
            await mirror.clean()


async def test_a_replica_that_does_not_answer_is_lost_without_a_write(tmp_path: Path) -> None:
    mirror, replicas = await idle(tmp_path, silence=0.3)
    async with mirror:
        replicas[2].frozen.clear()
        await until(lambda: mirror.state is MirrorState.DEGRADED)
        replicas[2].frozen.set()
        async with asyncio.timeout(HANG):
            await mirror.clean()


async def test_a_later_writer_is_noticed_without_a_write(tmp_path: Path) -> None:
    mirror, _ = await idle(tmp_path)
    async with mirror:
        for path in (tmp_path / "replica0", tmp_path / "replica1"):
            claim(path)
        await until(lambda: mirror.state is MirrorState.DEPOSED)


async def test_resync_fails_for_a_leg_that_is_being_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`nvmeof target mirror resync` is not told that all legs are there."""
    paths = files(tmp_path, 2)
    frozen = Frozen(paths[1])
    quick = partial(Mirror, timeout=0.3, retry=0.02)

    def replica_for(leg: LegConfig, unit: int, **_: object) -> Replica:
        return frozen if leg.name == str(paths[1]) else FileReplica(leg.name, unit=unit)

    monkeypatch.setattr("nvmf.replication.managed.replica_for", replica_for)
    monkeypatch.setattr("nvmf.replication.managed.Mirror", quick)
    legs = [{"path": str(path)} for path in paths]
    managed = ManagedMirror(
        NamespaceConfig.model_validate({"nsid": 1, "store": "mirror", "leg": legs, "quorum": 1}),
        "here",
    )
    await managed.open()
    try:
        mirror = managed._mirror
        assert mirror is not None
        async with asyncio.timeout(HANG):
            await mirror.clean()
        frozen.frozen.clear()  # it opens, and then does not answer: each attempt takes long
        await until(lambda: mirror.replicas[1].state is LegState.OUT)
        await until(lambda: mirror.replicas[1].state is LegState.JOINING)
        with pytest.raises(OSError, match="has not answered"):
            await managed.resync()
        frozen.frozen.set()
        async with asyncio.timeout(HANG):
            await mirror.clean()
        await managed.resync()
    finally:
        await managed.close()
