# SPDX-License-Identifier: BSD-3-Clause
"""Waiting until sysfs shows something: woken by udev's events, and looking again now and then.

With udevd running its own events are awaited, since the nodes and links are then made and their
permissions set; without it, those of the kernel itself; where neither can be had, sysfs is polled.
What counts is always what sysfs shows: an event is only a reason to look.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from nvmf.rdma.hotplug import BLOCK, NVME, Hotplug, HotplugError

T = TypeVar("T")
UDEVD = Path("/run/udev/control")
"""There while udevd runs."""
LOOK_SECONDS = 0.5
"""Between looks without an event: one may be lost."""
POLL_SECONDS = 0.1
"""Seconds between checks if there are no events."""


class Waiter:
    """Listens from the moment it is made, so that nothing is missed; close() it."""

    def __init__(self) -> None:
        self._events: Hotplug | None = None
        source: Literal["udev", "kernel"] = "udev" if UDEVD.exists() else "kernel"
        try:
            self._events = Hotplug((NVME, BLOCK), source=source)
        except HotplugError:
            self._poll = POLL_SECONDS
        else:
            self._poll = LOOK_SECONDS

    def until(
        self,
        look: Callable[[], T | None],
        within: float,
        *,
        give_up: Callable[[], bool] = lambda: False,
    ) -> T | None:
        """Return what look() finds; None after within seconds, or if give_up() returns true."""
        end = time.monotonic() + within
        while (found := look()) is None:
            left = end - time.monotonic()
            if left <= 0 or give_up():
                return None
            self._sleep(min(left, self._poll))
        return found

    def _sleep(self, seconds: float) -> None:
        if self._events is None:
            time.sleep(seconds)
            return
        ready, _, _ = select.select([self._events.fileno()], [], [], seconds)
        if ready:
            self._events.events()

    def close(self) -> None:
        """Stop listening."""
        if self._events:
            self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
