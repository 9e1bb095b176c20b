# SPDX-License-Identifier: BSD-3-Clause
"""Callbacks that block an event loop, by measures that load on the machine does not change.

Of each callback: the processor time of its thread, and its blocked time, in which it slept. The
latter is the remaining wall time without

* the time that this thread waited for a processor, and the other threads of this process, which
  may have held the interpreter's lock then (/proc/PID/task/TID/schedstat),
* the time in which the hypervisor ran other machines (/proc/stat).

A callback is slow if its processor time exceeds PROCESSOR_SECONDS, or its blocked time
BLOCKED_SECONDS. The second limit is larger, because waits for a disk that others use, and for the
interpreter's lock, cannot be subtracted. The longest of all tests were 0.09 s on the processor and
0.05 s blocked, on two processors that were both busy. A store written in Python is exempt: it has
an event loop of its own, which it may block.

Only the standard library is imported, because targets in processes of their own load this file
too (support/watched). They append a line for each slow callback to the file that FILE names.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from asyncio import Task, events
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PROCESSOR_SECONDS = float(os.environ.get("NVMF_SLOW_PROCESSOR") or 0.5)
BLOCKED_SECONDS = float(os.environ.get("NVMF_SLOW_BLOCKED") or 2.0)
"""The environment can lower both, to list the slowest callbacks of a run."""
_LEAST = min(PROCESSOR_SECONDS, BLOCKED_SECONDS)
FACTOR = 4 if "libasan" in os.environ.get("LD_PRELOAD", "") else 1
"""Multiplies the limits under ASan, which slows down the processor's work."""
FILE = "NVMF_SLOW_CALLBACKS"
"""The environment variable with the path of the file for slow callbacks of other processes."""
_FRESH = 0.25
"""Seconds for which the readings of the machine and of other threads are used."""
_CONTINUES = 0.05
"""Seconds until SIGCONT is handled: a different thread may receive it, a moment later."""
_TICK = os.sysconf("SC_CLK_TCK")
_TESTS = Path(__file__).resolve().parents[1]
_STORES = "storethread.py"
"""The module with the event loop of stores written in Python."""


class Times(NamedTuple):
    """Seconds that a callback has taken."""

    processor: float
    blocked: float

    @property
    def slow(self) -> bool:
        """Whether one of them is too long."""
        return (
            self.processor > PROCESSOR_SECONDS * FACTOR or self.blocked > BLOCKED_SECONDS * FACTOR
        )

    def __str__(self) -> str:
        return f"{self.processor:.2f} s on the processor, blocked for {self.blocked:.2f} s"


def _waits() -> dict[str, float]:
    """Return how long each thread of this process has waited for a processor."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/schedstat") as file:
                found[thread] = int(file.read().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):  # the thread has ended, or an older kernel
            continue
    return found


def _stolen() -> float:
    """Return how long the hypervisor has let other machines run, of all processors."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / _TICK


class _Machine:
    """The readings that are too expensive for each callback."""

    def __init__(self) -> None:
        self.read_at = 0.0
        self.waits: dict[str, float] = {}
        self.stolen = 0.0

    def refresh(self, now: float) -> None:
        if now - self.read_at > _FRESH:
            self.read_at, self.waits, self.stolen = now, _waits(), _stolen()

    def lost(self) -> float:
        """Return the seconds since the readings in which threads could not run."""
        waited = sum(wait - self.waits.get(one, 0.0) for one, wait in _waits().items())
        return waited + _stolen() - self.stolen


class _Thread(threading.local):
    """The callback that runs in a thread."""

    def __init__(self) -> None:
        self.machine = _Machine()
        self.wall = self.processor = 0.0

    def begin(self) -> None:
        self.machine.refresh(time.monotonic())
        self.wall, self.processor = time.monotonic(), time.thread_time()

    def times(self) -> Times:
        """Return the times of this thread's callback until now."""
        processor = time.thread_time() - self.processor
        wall = time.monotonic() - self.wall
        return Times(processor, max(wall - processor - self.machine.lost(), 0.0))


_thread = _Thread()


def times() -> Times:
    """Return the times of the callback that calls this."""
    return _thread.times()


def limits() -> str:
    """Return the limits in words."""
    processor, blocked = PROCESSOR_SECONDS * FACTOR, BLOCKED_SECONDS * FACTOR
    return f"limits: {processor:g} s on the processor, {blocked:g} s blocked"


def _exempt(coroutine: object) -> bool:
    """Whether it is a test's own, which may block on a process, or that of a store in Python."""
    code = getattr(coroutine, "cr_code", None) or getattr(coroutine, "gi_code", None)
    if code is None:
        return False
    path = Path(code.co_filename)
    return path.name == _STORES or _TESTS in path.parents


def _name(handle: Any) -> str | None:
    """Return the name of a callback, or None if it is exempt."""
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    if isinstance(task, Task):
        return None if _exempt(task.get_coro()) else repr(task)
    return repr(handle)


_continued = -1.0
"""When the process was last continued after a stop."""


def _continue(*_: object) -> None:
    """Handle SIGCONT: a test may have stopped the process within a callback."""
    global _continued
    _continued = time.monotonic()


def _was_stopped(since: float) -> bool:
    """Return whether the process was stopped in that time, and continued."""
    time.sleep(_CONTINUES)
    return _continued > since


def watch(tell: Callable[[str], None]) -> None:
    """Measure every callback of this process from now on; tell is called with slow ones."""
    run = events.Handle._run

    def run_measured(handle: Any) -> None:
        _thread.begin()
        run(handle)
        if time.monotonic() - _thread.wall < _LEAST:
            return  # nor was either of them longer
        found = _thread.times()
        if found.slow and (name := _name(handle)) is not None and not _was_stopped(_thread.wall):
            tell(f"{found}: {name}")

    setattr(events.Handle, "_run", run_measured)  # noqa: B010


def watch_to_file() -> None:
    """Measure the callbacks of this process, if FILE names a file for the slow ones."""
    path = os.environ.get(FILE)
    if not path:
        return

    def tell(line: str) -> None:
        with open(path, "a") as file:
            file.write(f"process {os.getpid()}: {' '.join(line.split())}\n")

    signal.signal(signal.SIGCONT, _continue)
    watch(tell)
