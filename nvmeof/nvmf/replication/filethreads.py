# SPDX-License-Identifier: BSD-3-Clause
"""A locked file that is used by threads of its own, and is open as long as one of them uses it.

A thread that waits for a disk cannot be stopped.  If its descriptor were closed meanwhile, it would
go on with a different file that has got the same number.  The threads are daemons: a program can
end while a disk hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from nvmf.replication.machine import ReplicaError

T = TypeVar("T")


class ThreadedFile:
    """A file that is opened once."""

    def __init__(self, path: Path, threads: int) -> None:
        """threads: how many calls may wait for the disk at a time."""
        self._path = path
        self._fd = -1
        self._users = 0
        """Calls that use the descriptor."""
        self._closed = False
        self._lock = threading.Lock()
        self._todo: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._most, self._started = threads, 0

    def open(self) -> asyncio.Future[int]:
        """Open and lock it for writing; the result is its size in bytes."""

        def work(_: int) -> int:
            self._fd = fd = _open(self._path)
            return os.lseek(fd, 0, os.SEEK_END)

        return self.run(work)

    def run(self, work: Callable[[int], T]) -> asyncio.Future[T]:
        """Have a thread call work with the descriptor; that cannot be cancelled."""
        return self._call(lambda: self._use(work))

    def close(self) -> asyncio.Future[None]:
        """Begin no more calls, and close it when those that are under way have ended."""
        closing = self._call(self._end)
        for _ in range(self._started):
            self._todo.put(None)
        return closing

    # ---- threads ----

    def _use(self, work: Callable[[int], T]) -> T:
        with self._lock:
            if self._closed:
                raise ReplicaError(f"{self._path} is not open")
            self._users += 1
        try:
            return work(self._fd)
        finally:
            with self._lock:
                self._users -= 1
            self._let_go()

    def _end(self) -> None:
        with self._lock:
            self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            if self._users or not self._closed:
                return
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def end(set_it: Callable[[], None]) -> None:
            if not future.done():
                set_it()

        def call() -> None:
            try:
                set_it = partial(future.set_result, work())
            except BaseException as error:
                set_it = partial(future.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(end, set_it)

        self._todo.put(call)
        if self._started < self._most:
            self._started += 1
            threading.Thread(
                target=_serve, args=(self._todo,), name="nvmf-replica", daemon=True
            ).start()
        return future


def _serve(todo: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := todo.get()) is not None:
        call()
        del call


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        if stat.S_ISBLK(os.stat(path).st_mode):
            flags |= os.O_EXCL  # refuses a disk that is mounted
        fd = os.open(path, flags)
    except OSError as error:
        used = ": it is mounted, or held by another program" if error.errno == errno.EBUSY else ""
        raise ReplicaError(f"cannot open {path}: {error.strerror}{used}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise ReplicaError(
            f"cannot lock {path}: a different process uses it; end that one first"
        ) from error
    return fd
