# SPDX-License-Identifier: BSD-3-Clause
"""A target with a mirror, and the targets of its legs, each on a file that stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import nvmf.target
from nvmf.replication.managed import ManagedMirror
from nvmf.replication.mirrorformat import SLOT, Header
from nvmf.rpc.mirror import Mirror, MirrorLeg
from nvmf.target.io.storethread import PythonStore
from nvmf.target.service.embedded import Target
from support.replicas import files

NQN = "nqn.2026-11.io.example:mirror"
LEG = "nqn.2026-11.io.example:leg"


def leg_text(path: Path, port: int = 0) -> str:
    """Return the configuration of the target of a leg."""
    return f"""
[[port]]
trsvcid = {port}
device = "iwarp"
[[subsystem]]
nqn = "{LEG}"
allow_any_host = true
[[subsystem.namespace]]
store = "file"
path = "{path}"
"""


def mirror_text(legs: Sequence[str], more: str = "", port: int = 0) -> str:
    """Return the configuration of a target with a mirror."""
    return f"""
[[port]]
trsvcid = {port}
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "mirror"
{more}
""" + "".join(f"[[subsystem.namespace.leg]]\n{leg}\n" for leg in legs)


class Remote:
    """The target of a leg, which ends and starts again at the same address."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target: Target | None = None
        self._port = 0
        self.url = ""

    @property
    def leg(self) -> str:
        """Return the leg as a table of a configuration."""
        return f'url = "{self.url}"'

    @property
    def name(self) -> str:
        """The name of the leg."""
        return f"{self.url}#1"

    async def start(self) -> None:
        """Serve the file."""
        self._target = await nvmf.target.serve(leg_text(self.path, self._port))
        self._port = self._target.ports[0][1]
        self.url = self._target.url

    async def stop(self) -> None:
        """End the target; the file stays."""
        target, self._target = self._target, None
        if target is not None:
            await target.stop()


@asynccontextmanager
async def remotes(folder: Path, count: int = 2, size: int = 4 << 20) -> AsyncIterator[list[Remote]]:
    """Run the targets of legs."""
    os.makedirs(folder, exist_ok=True)
    made = [Remote(path) for path in files(folder, count, size)]
    try:
        for one in made:
            await one.start()
        yield made
    finally:
        for one in made:
            await one.stop()


def state_of(target: Target) -> Mirror:
    """Return the state of the only mirror of a target: the present one, which the target itself
    looks at ten times a second.
    """
    storage = target._server.storage
    for store in storage._stores.values():
        if isinstance(store, PythonStore) and isinstance(store.mirror, ManagedMirror):
            store._call(_see(store.mirror), 60)
    (found,) = storage.mirrors()
    return found


async def _see(mirror: ManagedMirror) -> None:
    mirror._see()


def leg_of(target: Target, name: str) -> MirrorLeg:
    """Return the state of a leg."""
    return next(leg for leg in state_of(target)["legs"] if leg["name"] == name)


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def clean(target: Target, legs: int) -> None:
    """Wait until this number of legs, all of them, is in sync."""
    await until(
        lambda: (
            [leg["state"] for leg in state_of(target)["legs"]] == ["in-sync"] * legs
            and state_of(target)["state"] == "clean"
        )
    )


def header_of(path: Path) -> Header:
    """Return the header of a leg."""
    with path.open("rb") as file:
        content = file.read(2 * SLOT)
    header = Header.best([content[:SLOT], content[SLOT:]])
    assert header is not None
    return header


def data_of(path: Path) -> bytes:
    """Return the data of the mirror that is on a leg."""
    shape = header_of(path).geometry
    return path.read_bytes()[shape.start : shape.start + shape.size]
