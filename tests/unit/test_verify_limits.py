# SPDX-License-Identifier: BSD-3-Clause
"""Verify of many blocks in a namespace with limits: other hosts have their turns meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nvmf.initiator import Namespace, connect
from support.clientlab import NQN, OPTIONS, serving

BLOCKS = 1 << 16
"""Maximum blocks of a command."""


@pytest.fixture(autouse=True)
def long_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client send commands as long as other hosts do."""
    monkeypatch.setattr(Namespace, "_limit_of", lambda *_: BLOCKS)


@pytest.mark.parametrize("limits", ['read_bandwidth = "16MiB"', 'bandwidth = "16MiB"'])
async def test_a_long_verify_lets_others_read(tmp_path: Path, limits: str) -> None:
    """It is one command, and may be as long as hundreds of reads."""
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(512 * BLOCKS))
    namespace = f'store = "file"\npath = "{path}"\nblock_size = 512\nlimits = {{ {limits} }}'
    async with (
        serving(namespace) as (server, where),
        connect(where, **OPTIONS) as one,
        connect(where, **OPTIONS) as other,
    ):
        verifying = asyncio.create_task(one.namespaces[0].verify(0, BLOCKS))
        for _ in range(4):
            await other.namespaces[0].read(0, 8)
        assert not verifying.done()
        await verifying
        counts = server.core.subsystems[NQN].namespaces[1].engine.stats
        assert counts["verifies"] == 1
        assert counts["checked_bytes"] == 512 * BLOCKS


async def test_a_verify_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(512 * BLOCKS))
    namespace = f'store = "file"\npath = "{path}"\nblock_size = 512\nlimits = {{ read_iops = 1 }}'
    async with serving(namespace) as (server, where), connect(where, **OPTIONS) as one:
        await one.namespaces[0].verify(0, BLOCKS)
        assert server.core.subsystems[NQN].namespaces[1].engine.stats["throttled"] == 0
