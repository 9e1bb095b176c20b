# SPDX-License-Identifier: BSD-3-Clause
"""A namespace as a file of Python's io module: seekable, with a fixed size."""

from __future__ import annotations

import errno
import io
import os
import threading
from typing import TYPE_CHECKING, Protocol

from nvmf.initiator.base.arguments import bytes_of, whole

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MODES = {"r": "rb", "rb": "rb", "w": "wb", "wb": "wb", "r+": "rb+", "rb+": "rb+", "r+b": "rb+"}


class Disk(Protocol):
    """The synchronous namespace of a file."""

    @property
    def nsid(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def size(self) -> int: ...

    def pread(self, n: int, offset: int) -> bytes: ...
    def preadinto(self, buffer: Buffer, offset: int) -> int: ...
    def pwrite(self, buffer: Buffer, offset: int) -> int: ...
    def flush(self) -> None: ...


class NamespaceFile(io.RawIOBase):
    """The bytes of a namespace, from Namespace.open().

    For a single writer only: a write that does not begin and end at a block boundary reads the
    blocks at its ends and writes them back, and data written to them in between by a different
    file, program or host is lost. io.BufferedRandom and io.BufferedWriter reduce the number of such
    writes. flush() and close() have the controller make the written data stable. Closing the file
    does not close the controller.
    """

    _written = 0
    """Writes that have ended, also those that failed: a part of one may have been written."""
    _stable = 0
    """The number of these that a successful flush has made stable."""

    def __init__(self, disk: Disk, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(f"a namespace is opened with mode rb, wb or r+b, not {mode!r}")
        self._disk = disk
        self._position = 0
        self._lock = threading.Lock()
        """Protects the reading and writing back of a block."""
        self.mode = _MODES[mode]
        self.name = f"namespace {disk.nsid}"

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.mode
        return f"<NamespaceFile of {self.name}, {self._disk.size} bytes, {state}>"

    def readable(self) -> bool:
        """Whether the mode allows reads."""
        return self.mode != "wb"

    def writable(self) -> bool:
        """Whether the mode allows writes."""
        return self.mode != "rb"

    def seekable(self) -> bool:
        """Return True: the file can seek."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position, and return it; it may be past the end."""
        self._require_open()
        size = self._disk.size
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: size}.get(whence)
        if base is None:
            raise ValueError(f"whence is 0, 1 or 2, not {whence!r}")
        if base + whole("offset", offset) < 0:
            raise OSError(errno.EINVAL, f"cannot seek to byte {base + offset} of {self.name}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill a buffer from the position on; fewer bytes at the end, 0 past it."""
        self._require_open()
        if not self.readable():
            raise io.UnsupportedOperation(f"{self.name} is open for writing only")
        with bytes_of(buffer) as view:
            count = min(len(view), max(self._disk.size - self._position, 0))
            if count:
                with view[:count] as part:
                    self._disk.preadinto(part, self._position)
        self._position += count
        return count

    def readall(self) -> bytes:
        """Return all bytes from the position to the end."""
        self._require_open()
        if not self.readable():
            raise io.UnsupportedOperation(f"{self.name} is open for writing only")
        count = self._disk.size - self._position
        if count <= 0:
            return b""
        found = self._disk.pread(count, self._position)
        self._position += count
        return found

    def write(self, data: Buffer, /) -> int:
        """Write all of a buffer from the position on, and return its length.

        Raises OSError (ENOSPC) if it extends past the end; then nothing is written.
        """
        self._require_open()
        if not self.writable():
            raise io.UnsupportedOperation(f"{self.name} is open for reading only")
        with bytes_of(data) as view:
            count, offset = len(view), self._position
            if count and offset + count > self._disk.size:
                raise OSError(
                    errno.ENOSPC,
                    f"cannot write {count} bytes at offset {offset} of {self.name}, which has "
                    f"{self._disk.size} bytes",
                )
            with self._lock:
                try:
                    self._put(view, offset)
                finally:
                    self._written += count > 0
        self._position += count
        return count

    def flush(self) -> None:
        """Make the data written through this file stable."""
        super().flush()
        written = self._written
        if written > self._stable:
            self._disk.flush()
            self._stable = max(self._stable, written)

    def _put(self, view: memoryview, offset: int) -> None:
        size = self._disk.block_size
        head = min(-offset % size, len(view))
        middle = (len(view) - head) // size * size
        for start, stop in ((0, head), (head, head + middle), (head + middle, len(view))):
            if start == stop:
                continue
            with view[start:stop] as part:
                if (offset + start) % size or len(part) % size:
                    self._change(part, offset + start)
                else:
                    self._disk.pwrite(part, offset + start)

    def _change(self, part: memoryview, offset: int) -> None:
        """Replace a part of one block."""
        size = self._disk.block_size
        within = offset % size
        block = bytearray(self._disk.pread(size, offset - within))
        block[within : within + len(part)] = part
        self._disk.pwrite(block, offset - within)

    def _require_open(self) -> None:
        if self.closed:
            raise ValueError(f"the file of {self.name} is closed")
