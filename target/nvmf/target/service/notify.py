# SPDX-License-Identifier: BSD-3-Clause
"""Notification of the service manager: sd_notify(3) and sd_watchdog_enabled(3).

Without a service manager every call does nothing.  The event loop feeds the watchdog: if the loop
stalls, the service manager kills and restarts the target.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Self

log = logging.getLogger("nvmf.target")

STATUS_EVERY = 5.0
"""Seconds between two checks of a status that is followed."""


class Notifier:
    """The connection to the service manager that the environment names.

    The variables are removed from the environment, so that child processes do not use them.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = dict(os.environ if environment is None else environment)
        if environment is None:
            for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
                os.environ.pop(name, None)
        self._address = _address(given.get("NOTIFY_SOCKET", ""))
        self.watchdog = _watchdog(given) if self._address else None
        """Watchdog timeout in seconds; None: no watchdog."""
        self._feeding: asyncio.Task[None] | None = None

    def send(self, *assignments: str) -> None:
        """Send NAME=VALUE lines in one message; a failure is only logged."""
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
                way.setblocking(False)
                way.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            log.warning("cannot send %s to the service manager: %s", assignments[0], error.strerror)

    def ready(self, status: str = "") -> None:
        """Report that the target has started or reloaded."""
        self.send("READY=1", *_status(status))

    def status(self, status: str) -> None:
        """Report one line for `systemctl status`."""
        self.send(*_status(status))

    def reloading(self) -> None:
        """Report the start of a reload, which ends with ready()."""
        # The manager compares this with its own CLOCK_MONOTONIC, in microseconds.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.send("RELOADING=1", f"MONOTONIC_USEC={now}")

    def stopping(self) -> None:
        """Report that the target is stopping."""
        self.send("STOPPING=1")

    def feed(self, well: Callable[[], bool] = lambda: True) -> Self:
        """Feed the watchdog from the running loop while well() is true, until close()."""
        if self.watchdog is not None and self._feeding is None:
            self._feeding = asyncio.ensure_future(self._feed(self.watchdog / 3, well))
        return self

    async def follow(self, status: Callable[[], str], every: float = STATUS_EVERY) -> None:
        """Report changes of a status until cancelled; without a service manager, return at once."""
        known = status()
        while self._address is not None:
            await asyncio.sleep(every)
            now = status()
            if now != known:
                self.status(now)
                known = now

    async def _feed(self, every: float, well: Callable[[], bool]) -> None:
        while True:
            if well():
                self.send("WATCHDOG=1")
            await asyncio.sleep(every)

    async def close(self) -> None:
        """Stop feeding the watchdog."""
        if self._feeding is not None:
            self._feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._feeding
            self._feeding = None


def _address(text: str) -> str | None:
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def _status(text: str) -> list[str]:
    return ["STATUS=" + " ".join(text.split())] if text else []


def _watchdog(environment: Mapping[str, str]) -> float | None:
    """Return its timeout in seconds; None if unset, invalid or meant for a different process."""
    try:
        period = int(environment["WATCHDOG_USEC"])
        process = int(environment.get("WATCHDOG_PID", os.getpid()))
    except (KeyError, ValueError):
        return None
    return period / 1e6 if period > 0 and process == os.getpid() else None
