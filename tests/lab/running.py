# SPDX-License-Identifier: BSD-3-Clause
"""A command that runs in the guest, and its result."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class GuestError(Exception):
    """The guest, or a command in it, did not behave as a test requires."""


@dataclass(frozen=True)
class Result:
    """A command that ended."""

    command: str
    status: int
    """Exit status; negative if a signal ended it."""
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    def json(self) -> Any:
        try:
            return json.loads(self.stdout)
        except ValueError as error:
            raise GuestError(
                f"{self.command!r} printed no JSON ({error}): {self.stdout!r}"
            ) from None

    def check(self) -> Result:
        if self.status:
            raise GuestError(f"{self.command!r} ended with {self.status}:\n{self.output.rstrip()}")
        return self


class Running:
    """A command in the guest; its output is passed to stderr immediately."""

    def __init__(self, command: str, send_signal: Callable[[int], None], quiet: bool) -> None:
        self.command = command
        self._send_signal = send_signal
        self._quiet = quiet
        self._data = {"out": bytearray(), "err": bytearray()}
        self._status: int | None = None
        self._lost: str | None = None
        self._changed = threading.Condition()

    # Called by the reader of the port.

    def feed(self, stream: str, data: bytes) -> None:
        with self._changed:
            self._data[stream] += data
            self._changed.notify_all()
        if not self._quiet:
            for line in data.decode(errors="replace").splitlines():
                print(f"guest| {line}", file=sys.stderr)

    def ended(self, status: int) -> None:
        with self._changed:
            self._status = status
            self._changed.notify_all()

    def lost(self, why: str) -> None:
        with self._changed:
            self._lost = why
            self._changed.notify_all()

    # Called by a test.

    @property
    def output(self) -> str:
        """Its output so far."""
        return (self._data["out"] + self._data["err"]).decode(errors="replace")

    @property
    def alive(self) -> bool:
        return self._status is None and self._lost is None

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to it and its children."""
        if self.alive:
            self._send_signal(number)

    def wait_for(self, text: str, timeout: float = 120.0) -> None:
        """Wait until it has printed a text."""
        with self._changed:
            self._changed.wait_for(lambda: text in self.output or not self.alive, timeout)
        if text not in self.output:
            raise GuestError(
                f"{self.command!r} did not print {text!r} within {timeout:.0f} s, but:\n"
                f"{self.output}{self._lost or ''}"
            )

    def wait(self, timeout: float = 120.0) -> Result:
        """Wait for its end; kill it if that takes longer."""
        with self._changed:
            in_time = self._changed.wait_for(lambda: not self.alive, timeout)
        if self._lost is not None:
            raise GuestError(f"{self.command!r} was lost: {self._lost}")
        if not in_time:
            self._send_signal(signal.SIGKILL)
            raise GuestError(
                f"{self.command!r} did not end within {timeout:.0f} s; it printed:\n{self.output}"
            )
        assert self._status is not None
        out, err = (bytes(self._data[name]).decode(errors="replace") for name in ("out", "err"))
        return Result(self.command, self._status, out, err)
