# SPDX-License-Identifier: BSD-3-Clause
"""Events of RDMA devices, block devices and NVMe controllers, by means of pyudev."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from nvmf.errors import Error

RDMA = "infiniband"
"""Subsystem of RDMA devices."""
RDMA_VERBS = "infiniband_verbs"
"""Subsystem of the device nodes that programs open: these are removed first, and the removal of
their RDMA device waits for the programs."""
BLOCK = "block"
NVME = "nvme"


_VERBS_CLASS = Path("/sys/class/infiniband_verbs")


def rdma_devices() -> frozenset[str]:
    """Return the names of the RDMA devices that programs can open now."""
    found = set()
    for entry in _VERBS_CLASS.glob("uverbs*/ibdev"):
        with contextlib.suppress(OSError):  # removed meanwhile
            found.add(entry.read_text().strip())
    return frozenset(found)


class HotplugError(Error):
    """Device events are not available; the message says why."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """A device was added, removed or changed."""

    action: str
    """add, remove, change, bind, unbind, move, online or offline."""
    subsystem: str
    name: str
    node: str | None
    """Path of the device node."""


class Hotplug:
    """A udev monitor.  fileno() is readable when events() has something; close() it afterwards."""

    def __init__(
        self, subsystems: Iterable[str] = (RDMA,), source: Literal["udev", "kernel"] = "udev"
    ) -> None:
        """source kernel: events of the kernel itself, which are available without udevd.

        Raises HotplugError if pyudev is missing or the kernel refuses.
        """
        try:
            import pyudev
        except ImportError as error:
            raise HotplugError(
                f"cannot import pyudev ({error}): install it with pip or as python3-pyudev"
            ) from None
        try:
            self._monitor: Any = pyudev.Monitor.from_netlink(pyudev.Context(), source)
            for subsystem in subsystems:
                self._monitor.filter_by(subsystem)
            self._monitor.start()
        except (OSError, ValueError) as error:
            raise HotplugError(f"no udev events on this machine: {error}") from None

    def fileno(self) -> int:
        """Return the descriptor of the netlink socket."""
        return int(self._monitor.fileno())

    def events(self) -> list[DeviceEvent]:
        """Return the events since the last call, without waiting."""
        found: list[DeviceEvent] = []
        while (device := self._monitor.poll(timeout=0)) is not None:
            found.append(
                DeviceEvent(
                    str(device.action),
                    str(device.subsystem),
                    str(device.sys_name),
                    device.device_node,
                )
            )
        return found

    async def __aiter__(self) -> AsyncIterator[DeviceEvent]:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self.fileno(), ready.set)
        try:
            while True:
                for event in self.events():
                    yield event
                ready.clear()
                await ready.wait()
        finally:
            loop.remove_reader(self.fileno())

    def close(self) -> None:
        """Stop listening; the socket is closed with the object."""
        self._monitor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
