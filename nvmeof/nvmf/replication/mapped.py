# SPDX-License-Identifier: BSD-3-Clause
"""MappedReplica: persistent memory of this machine as a replica, without a file system's calls."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

from nvmf import engine
from nvmf.replication.machine import ReplicaError


def is_device_dax(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a character device, as a device DAX is: it can only be mapped."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


class MappedReplica:
    """A device DAX, or a file on DAX or tmpfs: a write is a copy by the processor.

    The engine's ``pmem`` store has the memory: a write is persistent when it returns, a block is
    whole or unchanged after a power failure, and a lock keeps other writers of this machine out.
    The last 256 KiB of a DAX have the redo slots for that.
    """

    def __init__(self, path: str | os.PathLike[str], *, unit: int = 4096) -> None:
        self._path = Path(path)
        self.unit = unit
        self.size = 0
        self._store: engine.Store | None = None

    @property
    def name(self) -> str:
        """Its path."""
        return str(self._path)

    async def fence(self) -> None:
        """Open, map and lock it."""
        await self.close()
        block = 512 if self.unit % 4096 else 4096
        try:
            store = await asyncio.to_thread(
                lambda: engine.Store("pmem", path=str(self._path), block_size=block)
            )
        except OSError as error:
            raise ReplicaError(error.strerror or str(error)) from error
        if not store.mapped:
            await asyncio.to_thread(store.close)
            raise ReplicaError(
                f"{self._path} is not memory: it is neither a device DAX nor a file on DAX or "
                "tmpfs; use it as a file"
            )
        self._store = store
        self.size = store.size // self.unit * self.unit

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        return self._open().read(offset, length)

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes persistently."""
        self._open().write(offset, data)

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        """Write bytes; then is called in the next turn of the event loop."""
        try:
            self._open().write(offset, data)
        except (OSError, ValueError, ReplicaError):
            return False  # write() follows, and gives the reason
        asyncio.get_running_loop().call_soon(then, True)
        return True

    def begin_read(self, offset: int, length: int, then: Callable[[bytes | None], None]) -> bool:
        """Read bytes; then is called with them in the next turn of the event loop."""
        try:
            data = self._open().read(offset, length)
        except (OSError, ValueError, ReplicaError):
            return False  # read() follows, and gives the reason
        asyncio.get_running_loop().call_soon(then, data)
        return True

    async def flush(self) -> None:
        """Make everything persistent that was written."""
        await asyncio.to_thread(self._open().flush)

    async def close(self) -> None:
        """Unmap it."""
        store, self._store = self._store, None
        if store is not None:
            await asyncio.to_thread(store.close)

    def _open(self) -> engine.Store:
        if self._store is None:
            raise ReplicaError(f"{self._path} is not open")
        return self._store
