# SPDX-License-Identifier: BSD-3-Clause
"""Disks that do not respond, for tests of what waits for them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from unittest import mock

PATIENCE = 60.0


class Disk:
    """A disk that does not respond until it goes on."""

    def __init__(self) -> None:
        self.reached, self.goes_on = threading.Event(), threading.Event()
        self.ended = threading.Semaphore(0)
        """Has one for each call that has ended."""

    def respond(self) -> None:
        """Wait for the disk, in a call of os."""
        self.reached.set()
        if threading.current_thread() is threading.main_thread():
            raise AssertionError("the event loop waits for a disk")
        self.goes_on.wait(PATIENCE)


@contextlib.contextmanager
def hanging(name: str, concerns: Callable[..., bool]) -> Iterator[Disk]:
    """Have the calls of a function of os wait for a disk, if their arguments concern it."""
    disk, real = Disk(), getattr(os, name)

    def slow(*args: object) -> object:
        if not concerns(*args):
            return real(*args)
        disk.respond()
        try:
            return real(*args)
        finally:
            disk.ended.release()

    with mock.patch.object(os, name, slow):
        try:
            yield disk
        finally:
            disk.goes_on.set()
