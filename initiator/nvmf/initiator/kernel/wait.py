# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for a state in sysfs: by udev's events, and by reading it again periodically.

If udevd runs, its events are awaited, because nodes and links have then been made with their
permissions; otherwise those of the kernel. If neither is available, sysfs is polled. The state in
sysfs always decides: an event is only a reason to read it.
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
"""A file that exists while udevd runs."""
LOOK_SECONDS = 0.5
"""Seconds between checks without an event, because an event may be lost."""
POLL_SECONDS = 0.1
"""Seconds between checks if there are no events."""


class Waiter:
    """Listens from its creation on, so that no event is missed; close() it."""

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
        """Stop listening for events of devices."""
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
