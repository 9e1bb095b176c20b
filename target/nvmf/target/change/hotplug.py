# SPDX-License-Identifier: BSD-3-Clause
"""Devices that come and go, and the ports and namespaces that come and go with them.

What is there is always looked up; an event of the kernel or of udev is only a reason to look.
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
"""Between looks without an event: mounts and addresses send none here."""
SOON_SECONDS = 0.25
"""Until the look after one that could not bring everything up; doubled each time."""
_UDEVD = Path("/run/udev/control")
"""There while udevd runs."""


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
        log.warning("devices are looked for every %g s: %s", LOOK_SECONDS, error)
        return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is asked of the machine; tests have their own."""

    monitor: Callable[[], Monitor | None] = _monitor
    rdma_devices: Callable[[], frozenset[str]] = rdma_devices
    """Their names."""


@dataclass(slots=True)
class Sight:
    """What a look has shown."""

    away: dict[Key, str] = field(default_factory=dict)
    """With why."""
    marks: dict[Path, Mark] = field(default_factory=dict)
    grown: list[Place] = field(default_factory=list)
    """Namespaces whose device has another size, which is theirs."""
    come: list[Key] = field(default_factory=list)
    """What of away is to be tried: it seems to be there again."""

    def failed(self, key: Key, error: ServerError) -> None:
        """What came cannot be served yet."""
        self.away[key] = str(error)
        if isinstance(key, Path):
            self.marks.pop(key, None)


class Following:
    """What of the configuration in force is away, and what is done as that changes.

    Calls are made one after another, within a change of the server.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self.away: dict[Key, str] = {}
        self._surroundings = surroundings
        self._look_at = Marks()
        self._marks: dict[Path, Mark] = {}
        """Of what is served."""
        self._devices: frozenset[str] = frozenset()
        self._lost: set[OpenPort] = set()
        """Ports that are open on a device that was removed."""

    @staticmethod
    def wanted(config: Config) -> bool:
        """Whether anything in a configuration may come and go."""
        return bool(coming_ports(config)) or bool(coming_namespaces(config))

    def needed(self, config: Config, open_ports: Iterable[OpenPort]) -> bool:
        """Whether to look at all: what removes an RDMA device waits for us, whatever is wanted."""
        return self.wanted(config) or any(p.listening.device == "system" for p in open_ports)

    def stop(self) -> None:
        """End the looks that are under way."""
        self._look_at.stop()

    def lost(self, opened: OpenPort) -> None:
        """The device of a port was removed, though one of its name may be there again."""
        self._lost.add(opened)

    async def removed_devices(self, open_ports: Iterable[OpenPort]) -> frozenset[str]:
        """Names of RDMA devices that were there at the last look; their ports are lost()."""
        loop = asyncio.get_running_loop()
        now = await loop.run_in_executor(None, self._surroundings.rdma_devices)
        gone, self._devices = self._devices - now, now
        for opened in open_ports:
            if opened.listener.device in gone:
                self.lost(opened)
        return gone

    async def look(self, config: Config, open_ports: Iterable[OpenPort]) -> Sight:
        """See what of a configuration is there; whether a port can be is seen by trying."""
        sight = Sight()
        spaces = coming_namespaces(config)
        for path, mark in (await self._look_at.of(spaces)).items():
            before = self._marks.get(path)
            if mark is None:  # a file system that hangs is no reason to take a namespace away
                if before is not None:
                    sight.marks[path] = before
                else:
                    sight.away[path] = "its file system does not answer"
                continue
            if isinstance(mark, str):
                sight.away[path] = mark
                continue
            sight.marks[path] = mark
            if path in self.away or (before is not None and before.identity != mark.identity):
                sight.away[path] = self.away.get(path, "something else has taken its place")
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
        """What was seen is what is served now."""
        before, self.away, self._marks = self.away, sight.away, sight.marks
        self._lost &= set(open_ports)
        for key, why in self.away.items():
            if before.get(key) != why:
                what = key if isinstance(key, Path) else "its device"
                log.warning("%s: waiting for %s: %s", named(key, config), what, why)
        for key in before.keys() - self.away.keys():
            if key in coming_namespaces(config) or key in coming_ports(config):
                log.info("%s: is there", named(key, config))


class Watcher:
    """Calls look() when something may have changed, and now and then without a reason.

    look tells whether something could not be brought up yet that seems to be there.
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
        """Look now."""
        self._wake.set()

    def _readable(self) -> None:
        assert self._monitor is not None
        try:
            if self._monitor.events():
                self._wake.set()
        except OSError as error:  # ENOBUFS: some were lost
            log.debug("events of devices were lost: %s", error)
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
                log.error("what has come or gone cannot be followed yet: %s", error)
                again = True
            except Exception:  # whatever it is: who removes a device later waits for a look
                log.exception("what has come or gone cannot be followed")
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
        """Look no more; a look under way goes on to its end."""
        if self._monitor is not None:
            asyncio.get_running_loop().remove_reader(self._monitor.fileno())
            self._monitor.close()
        if not self._looking:
            self._task.cancel()
        self._stopped = True
