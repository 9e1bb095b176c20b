# SPDX-License-Identifier: BSD-3-Clause
"""The part of a configuration that can be served while some devices are absent.

The current configuration stays the same.  The served part excludes absent objects that have
`hotplug = true`; a change (nvmf.target.change.apply) leads from one served part to the next.
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
"""Maximum seconds to check a path; without an answer, nothing changes for it."""
_THREADS_MOST = 64

_BLOCK_DEVICES = Path("/sys/dev/block")

Listen = tuple[str, int]
"""traddr and trsvcid of a port."""
Key = Path | Listen
"""Something that may be absent."""
Away = Mapping[Key, str]
"""Absent objects, and why."""
Place = tuple[str, int]
"""NQN and NSID."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The identity of the file or device at a path, to detect its replacement."""

    identity: tuple[int, int, int]
    """Device and inode of the file, and the device number if it is a device node."""
    size: int = 0
    """Size of a block device in bytes."""

    @classmethod
    def of(cls, path: Path) -> Mark:
        """Return the identity of a path; raise OSError if it does not exist."""
        found = path.stat()
        identity = (found.st_dev, found.st_ino, found.st_rdev)
        if not stat.S_ISBLK(found.st_mode) or not _BLOCK_DEVICES.exists():
            return cls(identity)
        # A node may outlive its device if /dev is not a devtmpfs.
        number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
        sectors = int((_BLOCK_DEVICES / number / "size").read_text())
        if not sectors:
            raise OSError(0, "no medium")
        return cls(identity, sectors * 512)


def _mark(path: Path) -> Mark | str:
    """Return the identity of a path, or why there is none; may block."""
    try:
        return Mark.of(path)
    except OSError as error:
        return error.strerror or str(error)


class Marks:
    """Checks paths on threads, so that a file system that hangs delays only its own paths."""

    def __init__(self) -> None:
        self._threads = Threads("stat", _THREADS_MOST)
        self._under_way: dict[Path, asyncio.Task[Mark | str]] = {}

    async def of(self, paths: Iterable[Path]) -> dict[Path, Mark | str | None]:
        """Return the identity of each path, or why there is none.

        None: its file system has not responded within STAT_TIMEOUT.
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
                if self._under_way.get(path) is task:  # it may be shared with another call
                    del self._under_way[path]
                found[path] = None if task.cancelled() else task.result()
        return found

    def stop(self) -> None:
        """Cancel pending checks without waiting; their threads end with the process."""
        for task in self._under_way.values():
            task.cancel()


def listen_of(port: PortConfig) -> Listen:
    """Return the address that identifies a port."""
    return port.traddr, port.trsvcid


def present(config: Config, away: Away) -> Config:
    """Return the part of a configuration that can be served without the absent objects."""
    if not away:
        return config
    ports = tuple(p for p in config.ports if not (p.hotplug and listen_of(p) in away))
    subsystems = tuple(_present(subsystem, away) for subsystem in config.subsystems)
    return config.model_copy(update={"ports": ports, "subsystems": subsystems})


def _present(config: SubsystemConfig, away: Away) -> SubsystemConfig:
    if not any(n.hotplug and n.path in away for n in config.namespaces):
        return config
    off = {"enabled": False}  # its NSID stays in use
    spaces = tuple(
        n.model_copy(update=off) if n.hotplug and n.path in away else n for n in config.namespaces
    )
    return config.model_copy(update={"namespaces": spaces})


def without(config: Config, lost: Collection[PortConfig | Place]) -> Config:
    """Return the part of a configuration without ports and namespaces that were not restored."""
    if not lost:
        return config

    def left(subsystem: SubsystemConfig) -> SubsystemConfig:
        off = {"enabled": False}  # its NSID stays in use
        spaces = tuple(
            n.model_copy(update=off) if (subsystem.nqn, nsid) in lost else n
            for nsid, n in subsystem.numbered()
        )
        return subsystem.model_copy(update={"namespaces": spaces})

    ports = tuple(port for port in config.ports if port not in lost)
    subsystems = tuple(left(subsystem) for subsystem in config.subsystems)
    return config.model_copy(update={"ports": ports, "subsystems": subsystems})


def exchange_port(config: Config, old: PortConfig, new: PortConfig) -> Config:
    """Replace the last port that equals old, if there is one."""
    ports = list(config.ports)
    if old in ports:
        ports[len(ports) - 1 - ports[::-1].index(old)] = new
    return config.model_copy(update={"ports": tuple(ports)})


def coming_namespaces(config: Config) -> dict[Path, list[tuple[Place, NamespaceConfig]]]:
    """Return the namespaces with hotplug = true, by path."""
    found: dict[Path, list[tuple[Place, NamespaceConfig]]] = {}
    for subsystem in config.subsystems:
        if any(n.hotplug for n in subsystem.namespaces):
            for nsid, n in subsystem.numbered():
                if n.hotplug and n.enabled and n.path is not None:
                    found.setdefault(n.path, []).append(((subsystem.nqn, nsid), n))
    return found


def coming_ports(config: Config) -> dict[Listen, PortConfig]:
    """Return the ports with hotplug = true."""
    return {listen_of(port): port for port in config.ports if port.hotplug}


def named(key: Key, config: Config) -> str:
    """Return the name of a port or namespaces, for messages."""
    if isinstance(key, tuple):
        return f"port {key[1]} of {key[0]}"
    places = [place for place, _ in coming_namespaces(config).get(key, ())]
    return " and ".join(f"namespace {nsid} of {nqn}" for nqn, nsid in places) or str(key)
