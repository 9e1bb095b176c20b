# SPDX-License-Identifier: BSD-3-Clause
"""FileReplica: a file or block device of this machine as a replica."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from nvmf.replication.machine import ReplicaError

T = TypeVar("T")
_THREADS = 4
"""Threads of a replica: its own, so that a disk that hangs holds up nothing else."""

_Write: TypeAlias = "tuple[bytes, int, asyncio.Future[None]]"
"""Bytes, offset, and the future that is done when they are persistent."""


class FileReplica:
    """A file or block device of this machine: writes are followed by fdatasync, a lock keeps other
    writers of this machine out (they are refused, not fenced).
    """

    def __init__(self, path: str | os.PathLike[str], *, unit: int = 4096) -> None:
        self._path = Path(path)
        self.unit = unit
        self.size = 0
        self._fd = -1
        self._calls: set[asyncio.Task[None]] = set()
        self._waiting: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        """Its path."""
        return str(self._path)

    async def fence(self) -> None:
        """Open and lock it."""
        await self.close()
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ReplicaError(f"cannot open {self._path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.size = os.lseek(fd, 0, os.SEEK_END) // self.unit * self.unit
        except OSError as error:
            os.close(fd)
            raise ReplicaError(
                f"cannot lock {self._path}: a different process uses it; end that one first"
            ) from error
        self._fd = fd
        self._threads = ThreadPoolExecutor(_THREADS, "replica")

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        fd = self._open()
        data = await self._run(partial(os.pread, fd, length, offset))
        if len(data) != length:
            raise ReplicaError(f"{self._path} ends before byte {offset + length}")
        return data

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes, and wait until the device has them."""
        self._open()
        if offset + len(data) > self.size:
            raise ReplicaError(f"{self._path} ends before byte {offset + len(data)}")

        await self._group(data, offset)

    async def flush(self) -> None:
        """Sync the file."""
        fd = self._open()
        await self._shielded(lambda: os.fsync(fd))

    async def _group(self, data: bytes, offset: int) -> None:
        """Write with all others that come while an earlier group is written: one sync for all."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((data, offset, ended))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_groups())
            self._calls.add(self._writer)
            self._writer.add_done_callback(self._calls.discard)
        await ended

    async def _write_groups(self) -> None:
        fd = self._fd
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                await self._run(partial(self._write_group, fd, group))
            except Exception as error:  # each of them gets it
                for _, _, ended in group:
                    if not ended.done():
                        ended.set_exception(error)
                continue
            for _, _, ended in group:
                if not ended.done():
                    ended.set_result(None)

    def _write_group(self, fd: int, group: list[_Write]) -> None:
        try:
            for data, offset, _ in group:
                if os.pwrite(fd, data, offset) != len(data):
                    raise ReplicaError(f"{self._path} has taken only a part of a write")
            os.fdatasync(fd)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise ReplicaError(
                f"cannot write: {error.strerror}; free space in the file system"
            ) from error

    async def _shielded(self, work: Callable[[], None]) -> None:
        """Run work in a thread, which goes on if the caller is cancelled: close() waits for it."""
        task: asyncio.Task[None] = asyncio.create_task(self._run(work))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for writes that are under way, and close it."""
        if self._calls:
            await asyncio.gather(*self._calls, return_exceptions=True)
        fd, self._fd = self._fd, -1
        threads, self._threads = self._threads, None
        if fd >= 0:
            os.close(fd)
        if threads is not None:
            threads.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """Return the result of work, done by a thread of the replica."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _open(self) -> int:
        if self._fd < 0:
            raise ReplicaError(f"{self._path} is not open")
        return self._fd
