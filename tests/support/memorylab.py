# SPDX-License-Identifier: BSD-3-Clause
"""A target with a namespace that is exported as memory, for tests over real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from nvmf.config import loads
from nvmf.pmem.remote import RemoteMemory
from nvmf.target import Target, serve

NQN = "nqn.2026-01.example:memory"
HOST = "nqn.2026-01.example:host"
READER = "nqn.2026-01.example:reader"
OTHER = "nqn.2026-01.example:other"

CONFIG = f"""
[[port]]
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
hosts = ["{HOST}", "{READER}", "{OTHER}"]
[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "4MiB"
memory = ["{HOST}"]
memory_read_only = ["{READER}"]
"""


def over_roce(address: str, config: str = CONFIG) -> str:
    """Return the configuration with the port on the embedded RoCEv2 device."""
    there = f'device = "roce"\ntraddr = "{address}"'
    return config.replace('device = "iwarp"', there).replace("trsvcid = 0", "trsvcid = 4420")


@contextlib.asynccontextmanager
async def running(config: str = CONFIG, folder: Path | None = None) -> AsyncIterator[Target]:
    if folder is not None:
        config = f'[target]\nstate_dir = "{folder}"\n{config}'
    target = await serve(loads(config))
    try:
        yield target
    finally:
        await target.stop()


async def opened(target: Target, host: str = HOST, **options: object) -> RemoteMemory:
    arguments: dict[str, Any] = {"method": "write-send", "force": True, "hostnqn": host, **options}
    return await RemoteMemory.connect(target.url, **arguments)


def memory_of(target: Target) -> list[tuple[str, str]]:
    return [(one["hostnqn"], one["access"]) for one in target._server.memory.describe()]
