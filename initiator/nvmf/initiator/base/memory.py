# SPDX-License-Identifier: BSD-3-Clause
"""Memory without RDMA registration: pages aligned for direct I/O, and buffers of callers."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

from nvmf.initiator.base.arguments import bytes_of, memory_length

if TYPE_CHECKING:
    from typing_extensions import Buffer


class KernelMemory(mmap.mmap):
    """Pages of memory; close() it.  A buffer itself (memoryview(memory))."""

    def __new__(cls, length: int) -> KernelMemory:
        return super().__new__(cls, -1, memory_length(length))

    def __repr__(self) -> str:
        return "<KernelMemory closed>" if self.closed else f"<KernelMemory {len(self)} bytes>"


class BorrowedMemory:
    """A buffer of the caller; close() releases it."""

    def __init__(self, buffer: Buffer) -> None:
        view = bytes_of(buffer)
        if view.readonly:
            view.release()
            raise ValueError("a buffer to register must be writable")
        self._view = view

    def __repr__(self) -> str:
        try:
            return f"<BorrowedMemory {len(self)} bytes>"
        except ValueError:
            return "<BorrowedMemory closed>"

    @property
    def exported(self) -> memoryview:
        """Return the buffer; raise ValueError if it is closed."""
        return self._view[:]

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.exported

    def __len__(self) -> int:
        return len(self._view)

    def __enter__(self) -> BorrowedMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._view.release()


def is_aligned(view: memoryview, to: int) -> bool:
    """Return whether direct I/O can use a view as it is; False if it is read-only."""
    if view.readonly or not len(view):
        return False
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) % to == 0
