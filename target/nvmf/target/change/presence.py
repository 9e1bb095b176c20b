# SPDX-License-Identifier: BSD-3-Clause
"""Which part of a configuration can be served while devices of it are away.

The configuration in force stays as it is.  What of it has `hotplug = true` and is not there is left
out of the part that is served, and the change engine brings hosts from one part to the next.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nvmf.config.models import Config, NamespaceConfig, PortConfig, SubsystemConfig
from nvmf.target.lasting.threads import Threads

STAT_TIMEOUT = 2.0
"""Seconds that a look at a path may take; without an answer, what is served stays."""
_THREADS_MOST = 64

_BLOCK_DEVICES = Path("/sys/dev/block")

Listen = tuple[str, int]
"""traddr and trsvcid of a port."""
Key = Path | Listen
"""What may be away."""
Away = Mapping[Key, str]
"""What is away, and why."""
Place = tuple[str, int]
"""NQN and NSID."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a path leads to, so that another thing in its place is noticed."""

    identity: tuple[int, int, int]
    """Device and inode that it lies on, and the device that it is."""
    size: int = 0
    """Bytes of a block device."""

    @classmethod
    def of(cls, path: Path) -> Mark:
        """OSError where nothing is there."""
        found = path.stat()
        identity = (found.st_dev, found.st_ino, found.st_rdev)
        if not stat.S_ISBLK(found.st_mode) or not _BLOCK_DEVICES.exists():
            return cls(identity)
        # A node may outlive its device where /dev is no devtmpfs.
        number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
        sectors = int((_BLOCK_DEVICES / number / "size").read_text())
        if not sectors:
            raise OSError(0, "it has no medium")
        return cls(identity, sectors * 512)


def _mark(path: Path) -> Mark | str:
    """Return what a path leads to, or why it leads nowhere; may block."""
    try:
        return Mark.of(path)
    except OSError as error:
        return error.strerror or str(error)


class Marks:
    """Looks at paths on threads, so that a file system that hangs delays nothing but its paths."""

    def __init__(self) -> None:
        self._threads = Threads("stat", _THREADS_MOST)
        self._under_way: dict[Path, asyncio.Task[Mark | str]] = {}

    async def of(self, paths: Iterable[Path]) -> dict[Path, Mark | str | None]:
        """Return what each path leads to, or why it leads nowhere.

        None: its file system has not answered within STAT_TIMEOUT.
        """
        wanted = list(paths)
        for path in wanted:
            if path not in self._under_way:
                work = self._threads.run(partial(_mark, path))
                self._under_way[path] = asyncio.ensure_future(work)
        tasks = {path: self._under_way[path] for path in wanted}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=STAT_TIMEOUT)
        found: dict[Path, Mark | str | None] = dict.fromkeys(wanted)
        for path, task in tasks.items():
            if task.done():
                del self._under_way[path]
                found[path] = None if task.cancelled() else task.result()
        return found

    def stop(self) -> None:
        """Wait for nothing that is under way; its threads end with the process."""
        for task in self._under_way.values():
            task.cancel()


def listen_of(port: PortConfig) -> Listen:
    """What names a port."""
    return port.traddr, port.trsvcid


def present(config: Config, away: Away) -> Config:
    """The part of a configuration that can be served while so much is away."""
    if not away:
        return config
    ports = tuple(p for p in config.ports if not (p.hotplug and listen_of(p) in away))
    subsystems = tuple(_present(subsystem, away) for subsystem in config.subsystems)
    return config.model_copy(update={"ports": ports, "subsystems": subsystems})


def _present(config: SubsystemConfig, away: Away) -> SubsystemConfig:
    if not any(n.hotplug and n.path in away for n in config.namespaces):
        return config
    off = {"enabled": False}  # its number stays taken
    spaces = tuple(
        n.model_copy(update=off) if n.hotplug and n.path in away else n for n in config.namespaces
    )
    return config.model_copy(update={"namespaces": spaces})


def without(config: Config, lost: Collection[PortConfig | Place]) -> Config:
    """The part that is served where these ports and namespaces of it could not be put back."""
    if not lost:
        return config

    def left(subsystem: SubsystemConfig) -> SubsystemConfig:
        off = {"enabled": False}  # its number stays taken
        spaces = tuple(
            n.model_copy(update=off) if (subsystem.nqn, nsid) in lost else n
            for nsid, n in subsystem.numbered()
        )
        return subsystem.model_copy(update={"namespaces": spaces})

    ports = tuple(port for port in config.ports if port not in lost)
    subsystems = tuple(left(subsystem) for subsystem in config.subsystems)
    return config.model_copy(update={"ports": ports, "subsystems": subsystems})


def exchange_port(config: Config, old: PortConfig, new: PortConfig) -> Config:
    """With another port in the place of the last that is like old, if there is one."""
    ports = list(config.ports)
    if old in ports:
        ports[len(ports) - 1 - ports[::-1].index(old)] = new
    return config.model_copy(update={"ports": tuple(ports)})


def coming_namespaces(config: Config) -> dict[Path, list[tuple[Place, NamespaceConfig]]]:
    """By path, the namespaces that are to come and go with what it leads to."""
    found: dict[Path, list[tuple[Place, NamespaceConfig]]] = {}
    for subsystem in config.subsystems:
        if any(n.hotplug for n in subsystem.namespaces):
            for nsid, n in subsystem.numbered():
                if n.hotplug and n.enabled and n.path is not None:
                    found.setdefault(n.path, []).append(((subsystem.nqn, nsid), n))
    return found


def coming_ports(config: Config) -> dict[Listen, PortConfig]:
    """Ports that are to come and go with their devices."""
    return {listen_of(port): port for port in config.ports if port.hotplug}


def named(key: Key, config: Config) -> str:
    """A port or a namespace, for sentences."""
    if isinstance(key, tuple):
        return f"port {key[1]} of {key[0]}"
    places = [place for place, _ in coming_namespaces(config).get(key, ())]
    return " and ".join(f"namespace {nsid} of {nqn}" for nqn, nsid in places) or str(key)
