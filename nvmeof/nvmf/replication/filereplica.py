# SPDX-License-Identifier: BSD-3-Clause
"""FileReplica: a file or block device of this machine as a replica."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from nvmf.replication.filethreads import ThreadedFile
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
        self._file: ThreadedFile | None = None
        self._calls: set[asyncio.Future[None]] = set()
        """One for each call and task that has not ended, even if nobody waits for it."""
        self._waiting: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Its path."""
        return str(self._path)

    async def fence(self) -> None:
        """Open and lock it, when all has ended that was under way."""
        await self.close()
        self._file = file = ThreadedFile(self._path, _THREADS)
        try:
            size = await self._result(file.open())
        except Exception:
            await self.close()
            raise
        self.size = size // self.unit * self.unit

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        data = await self._result(self._open().run(lambda fd: os.pread(fd, length, offset)))
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
        """Sync the file, and read from the disk what it has."""
        await self._result(self._open().run(_sync))

    async def _group(self, data: bytes, offset: int) -> None:
        """Write with all others that come while an earlier group is written: one sync for all."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((data, offset, ended))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_groups(self._open()))
            self._note(self._writer)
        await ended

    async def _write_groups(self, file: ThreadedFile) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                await self._result(file.run(partial(self._write_group, group)))
            except Exception as error:  # each of them gets it
                for _, _, ended in group:
                    if not ended.done():
                        ended.set_exception(error)
                continue
            for _, _, ended in group:
                if not ended.done():
                    ended.set_result(None)

    def _write_group(self, group: list[_Write], fd: int) -> None:
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

    async def close(self) -> None:
        """Wait for what is under way, and close it.

        If this is cancelled, as while a disk hangs, it is closed when its last call has ended.
        """
        file, self._file = self._file, None
        try:
            await self._all_ended()
        finally:
            if file is not None:
                self._note(file.close())
        await self._all_ended()

    async def _all_ended(self) -> None:
        while self._calls:
            await asyncio.wait(self._calls)

    async def _result(self, call: asyncio.Future[T]) -> T:
        """Return the result of a call, which goes on if the caller is cancelled."""
        self._note(call)
        await asyncio.wait([call])
        return call.result()

    def _note(self, call: asyncio.Future[T]) -> None:
        over: asyncio.Future[None] = call.get_loop().create_future()
        self._calls.add(over)
        call.add_done_callback(partial(self._over, over))

    def _over(self, over: asyncio.Future[None], call: asyncio.Future[T]) -> None:
        self._calls.discard(over)
        over.set_result(None)
        if not call.cancelled():
            call.exception()  # perhaps nobody waits for it

    def _open(self) -> ThreadedFile:
        if self._file is None:
            raise ReplicaError(f"{self._path} is not open")
        return self._file


def _sync(fd: int) -> None:
    os.fsync(fd)
    # After a sync that failed, the page cache has what the disk does not, as if it was written.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
