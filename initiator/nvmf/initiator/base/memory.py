# SPDX-License-Identifier: BSD-3-Clause
"""Memory that no RDMA device has registered: pages aligned for direct I/O, and borrowed buffers."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class KernelMemory(mmap.mmap):
    """Pages of memory; close() it.  A buffer itself (memoryview(memory))."""

    def __new__(cls, length: int) -> KernelMemory:
        return super().__new__(cls, -1, length)


class BorrowedMemory:
    """A buffer of the caller's; close() gives it back."""

    def __init__(self, buffer: Buffer) -> None:
        view = memoryview(buffer)
        if view.readonly:
            raise ValueError("a buffer to register is writable")
        self._view = view.cast("B")

    def __buffer__(self, flags: int, /) -> memoryview:
        return self._view

    def __len__(self) -> int:
        return len(self._view)

    def __enter__(self) -> BorrowedMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._view.release()


def bytes_of(buffer: Buffer) -> memoryview:
    """A buffer as a view of bytes."""
    if isinstance(buffer, BorrowedMemory):  # a class has no __buffer__ before Python 3.12
        return buffer.__buffer__(0)[:]
    return memoryview(buffer).cast("B")


def is_aligned(view: memoryview, to: int) -> bool:
    """Whether direct I/O can use a view as it is; of one that is read-only, that is not told."""
    if view.readonly or not len(view):
        return False
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) % to == 0
