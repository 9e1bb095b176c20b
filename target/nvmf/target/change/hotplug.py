# SPDX-License-Identifier: BSD-3-Clause
"""Hotplug of devices, and of the ports and namespaces that depend on them.

Presence is always determined by checking; an event of the kernel or of udev only triggers a check.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from nvmf.config.models import Config
from nvmf.rdma.hotplug import (
    BLOCK,
    RDMA,
    RDMA_VERBS,
    DeviceEvent,
    Hotplug,
    HotplugError,
    rdma_devices,
)
from nvmf.target.change.presence import (
    Key,
    Mark,
    Marks,
    Place,
    coming_namespaces,
    coming_ports,
    named,
)
from nvmf.target.io.ports import OpenPort
from nvmf.target.io.stores import ServerError

log = logging.getLogger("nvmf.target")

LOOK_SECONDS = 5.0
"""Seconds between checks without an event: mounts and addresses send none here."""
SOON_SECONDS = 0.25
"""Seconds until the next check, after one that could not serve everything; doubles each time."""
_UDEVD = Path("/run/udev/control")
"""Exists while udevd runs."""


class Monitor(Protocol):
    """Events of devices; see nvmf.rdma.hotplug.Hotplug."""

    def fileno(self) -> int: ...
    def events(self) -> list[DeviceEvent]: ...
    def close(self) -> None: ...


def _monitor() -> Monitor | None:
    source: Literal["udev", "kernel"] = "udev" if _UDEVD.exists() else "kernel"
    try:
        return Hotplug((RDMA, RDMA_VERBS, BLOCK), source)
    except HotplugError as error:
        log.warning("no device events (checking every %g s instead): %s", LOOK_SECONDS, error)
        return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Access to the machine's devices; tests substitute their own."""

    monitor: Callable[[], Monitor | None] = _monitor
    rdma_devices: Callable[[], frozenset[str]] = rdma_devices
    """Returns the names of the devices."""


@dataclass(slots=True)
class Sight:
    """The result of a check."""

    away: dict[Key, str] = field(default_factory=dict)
    """Absent objects, and why."""
    marks: dict[Path, Mark] = field(default_factory=dict)
    grown: list[Place] = field(default_factory=list)
    """Namespaces with a changed device size, for which no size is configured."""
    come: list[Key] = field(default_factory=list)
    """Absent objects to retry: they seem to be present again."""

    def failed(self, key: Key, error: ServerError) -> None:
        """Note that a returned object cannot be served yet."""
        self.away[key] = str(error)
        if isinstance(key, Path):
            self.marks.pop(key, None)


class Following:
    """Absent parts of the current configuration.

    Calls must not overlap: they are part of a change of the server.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self.away: dict[Key, str] = {}
        self._surroundings = surroundings
        self._look_at = Marks()
        self._marks: dict[Path, Mark] = {}
        """Identities of the paths that are served."""
        self._devices: frozenset[str] = frozenset()
        self._lost: set[OpenPort] = set()
        """Open ports whose device was removed."""

    @staticmethod
    def wanted(config: Config) -> bool:
        """Return whether any part of a configuration has hotplug = true."""
        return bool(coming_ports(config)) or bool(coming_namespaces(config))

    def needed(self, config: Config, open_ports: Iterable[OpenPort]) -> bool:
        """Return whether to check at all: removal of an RDMA device always waits for its ports."""
        return self.wanted(config) or any(p.listening.device == "system" for p in open_ports)

    def stop(self) -> None:
        """Cancel pending checks."""
        self._look_at.stop()

    def lost(self, opened: OpenPort) -> None:
        """Note that the device of a port was removed, even if one of the same name exists again."""
        self._lost.add(opened)

    async def removed_devices(self, open_ports: Iterable[OpenPort]) -> frozenset[str]:
        """Return RDMA devices removed since the last check, and mark their ports as lost()."""
        loop = asyncio.get_running_loop()
        now = await loop.run_in_executor(None, self._surroundings.rdma_devices)
        gone, self._devices = self._devices - now, now
        for opened in open_ports:
            if opened.listener.device in gone:
                self.lost(opened)
        return gone

    async def look(self, config: Config, open_ports: Iterable[OpenPort]) -> Sight:
        """Check which parts of a configuration are present; a port is checked by opening it."""
        sight = Sight()
        spaces = coming_namespaces(config)
        for path, mark in (await self._look_at.of(spaces)).items():
            before = self._marks.get(path)
            if mark is None:  # a hanging file system: keep the namespace
                if before is not None:
                    sight.marks[path] = before
                else:
                    sight.away[path] = "its file system does not respond"
                continue
            if isinstance(mark, str):
                sight.away[path] = mark
                continue
            sight.marks[path] = mark
            if path in self.away or (before is not None and before.identity != mark.identity):
                sight.away[path] = self.away.get(path, "a different file or device has replaced it")
                sight.come.append(path)
            elif before is not None and before.size != mark.size:
                sight.grown += [place for place, n in spaces[path] if n.size is None]
        usable = {
            (p.config.traddr, p.config.trsvcid, p.config.device)
            for p in open_ports
            if p not in self._lost
        }
        for listen, port in coming_ports(config).items():
            if (*listen, port.device) not in usable:
                sight.away[listen] = self.away.get(listen, "its device was removed")
                sight.come.append(listen)
        return sight

    def settle(self, config: Config, sight: Sight, open_ports: Iterable[OpenPort]) -> None:
        """Make a result the current state, and log the differences."""
        before, self.away, self._marks = self.away, sight.away, sight.marks
        self._lost &= set(open_ports)
        for key, why in self.away.items():
            if before.get(key) != why:
                what = key if isinstance(key, Path) else "its device"
                log.warning("%s: waiting for %s: %s", named(key, config), what, why)
        for key in before.keys() - self.away.keys():
            if key in coming_namespaces(config) or key in coming_ports(config):
                log.info("%s: is present", named(key, config))


class Watcher:
    """Calls look() when something may have changed, and periodically.

    look() returns whether to retry soon, because something present could not be served yet.
    """

    def __init__(self, monitor: Monitor | None, look: Callable[[], Awaitable[bool]]) -> None:
        self._monitor = monitor
        self._look = look
        self._wake = asyncio.Event()
        self._looking = self._stopped = False
        self._task = asyncio.create_task(self._run())
        if monitor is not None:
            asyncio.get_running_loop().add_reader(monitor.fileno(), self._readable)

    def wake(self) -> None:
        """Check the devices now."""
        self._wake.set()

    def _readable(self) -> None:
        assert self._monitor is not None
        try:
            if self._monitor.events():
                self._wake.set()
        except OSError as error:  # ENOBUFS: some events were lost
            log.debug("device events were lost: %s", error)
            self._wake.set()

    async def _run(self) -> None:
        pause = LOOK_SECONDS
        while not self._stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            woken = self._wake.is_set()
            self._wake.clear()
            self._looking = True
            try:
                again = await self._look()
            except ServerError as error:
                log.error("cannot apply device changes yet; will retry: %s", error)
                again = True
            except Exception:  # keep checking: later removals of devices wait for a check
                log.exception("cannot apply device changes")
                again = False
            finally:
                self._looking = False
            if not again:
                pause = LOOK_SECONDS
            elif woken or pause == LOOK_SECONDS:
                pause = SOON_SECONDS
            else:
                pause = min(2 * pause, LOOK_SECONDS / 2)

    def stop(self) -> None:
        """Stop checking; a check in progress finishes."""
        if self._monitor is not None:
            asyncio.get_running_loop().remove_reader(self._monitor.fileno())
            self._monitor.close()
        if not self._looking:
            self._task.cancel()
        self._stopped = True
