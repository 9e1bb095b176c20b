# SPDX-License-Identifier: BSD-3-Clause
"""A namespace whose methods run on the event loop of a different thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nvmf.initiator.base.interface import AnyNamespace
from nvmf.initiator.sync.blocking import BlockingReservations, Loop
from nvmf.initiator.sync.file import NamespaceFile
from nvmf.initiator.sync.items import items_of
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Namespace:
    """An active namespace; nvmf.initiator.client.namespace describes its methods."""

    def __init__(self, loop: Loop, namespace: AnyNamespace) -> None:
        self._loop = loop
        self._namespace = namespace

    def __repr__(self) -> str:
        return repr(self._namespace)

    @property
    def nsid(self) -> int:
        """Namespace identifier."""
        return self._namespace.nsid

    @property
    def info(self) -> IdentifyNamespace:
        """Identify Namespace, as it was last read."""
        return self._namespace.info

    @property
    def ids(self) -> NamespaceIds:
        """EUI64, NGUID, UUID and command set, if the controller reports them."""
        return self._namespace.ids

    @property
    def block_size(self) -> int:
        """Bytes of a logical block."""
        return self._namespace.block_size

    @property
    def blocks(self) -> int:
        """Logical blocks."""
        return self._namespace.blocks

    @property
    def size(self) -> int:
        """Bytes."""
        return self._namespace.size

    @property
    def most_blocks(self) -> int:
        """Maximum blocks of one command."""
        return self._namespace.most_blocks

    def read(self, lba: int, blocks: int, *, fua: bool = False) -> bytes:
        """Return blocks logical blocks from lba on: blocks * block_size bytes."""
        return self._loop.call(self._namespace.read(lba, blocks, fua=fua))

    def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; return its length in bytes."""
        return self._loop.call(self._namespace.readinto(lba, buffer, fua=fua))

    def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on."""
        self._loop.call(self._namespace.write(lba, data, fua=fua))

    def read_many(
        self, lbas: Iterable[int] | Buffer, into: Buffer, *, blocks: int = 1, fua: bool = False
    ) -> int:
        """Read blocks logical blocks from each LBA on, into a writable buffer."""
        return self._loop.call(self._namespace.read_many(lbas, into, blocks=blocks, fua=fua))

    def write_many(
        self, lbas: Iterable[int] | Buffer, data: Buffer, *, blocks: int = 1, fua: bool = False
    ) -> int:
        """Write blocks logical blocks from each LBA on, from consecutive parts of data."""
        return self._loop.call(self._namespace.write_many(lbas, data, blocks=blocks, fua=fua))

    def pread(self, n: int, offset: int, *, fua: bool = False) -> bytes:
        """Return n bytes from a byte offset on, which need not be whole blocks.

        Raises NvmeError (LBA Out of Range), before anything is allocated or sent, if the range
        extends past the end of the namespace, and TypeError or ValueError for an invalid range.
        """
        return self._loop.call(self._namespace.pread(n, offset, fua=fua))

    def preadinto(self, buffer: Buffer, offset: int, *, fua: bool = False) -> int:
        """Fill a writable buffer of any length from a byte offset on, and return its length."""
        return self._loop.call(self._namespace.preadinto(buffer, offset, fua=fua))

    def preadv(self, buffers: Sequence[Buffer], offset: int, *, fua: bool = False) -> int:
        """Fill writable buffers, one after the other, from a byte offset on; return the bytes."""
        return self._loop.call(self._namespace.preadv(buffers, offset, fua=fua))

    def stream(
        self, offset: int = 0, n: int | None = None, *, chunk: int = 1 << 20, window: int = 4
    ) -> Iterator[bytes]:
        """Yield n bytes from a byte offset on, in order, chunk bytes at a time; None: to the end.

        Up to window chunks are read ahead of the caller.
        """
        chunks = self._namespace.stream(offset, n, chunk=chunk, window=window)
        with items_of(self._loop, chunks) as found:
            yield from found

    def pwrite(self, buffer: Buffer, offset: int, *, fua: bool = False) -> int:
        """Write a buffer from a byte offset on, and return its length.

        Both must be multiples of block_size; otherwise ValueError is raised. open() returns a file
        without this restriction.
        """
        return self._loop.call(self._namespace.pwrite(buffer, offset, fua=fua))

    def pwritev(self, buffers: Sequence[Buffer], offset: int, *, fua: bool = False) -> int:
        """Write buffers, one after the other, from a byte offset on; return the bytes.

        The offset and the total length must be multiples of block_size; otherwise ValueError is
        raised.
        """
        return self._loop.call(self._namespace.pwritev(buffers, offset, fua=fua))

    def open(self, mode: str = "rb") -> NamespaceFile:
        """Return the bytes of the namespace as a seekable, unbuffered binary file.

        mode is rb, wb or r+b; wb does not truncate, since the size is fixed.  The file is for one
        writer: see NamespaceFile.  It works until the controller is closed.
        """
        return NamespaceFile(self, mode)

    def compare(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Compare blocks with data; raise NvmeError (Compare Failure) if they differ.

        fua: the blocks are made stable first.
        """
        self._loop.call(self._namespace.compare(lba, data, fua=fua))

    def compare_and_write(
        self, lba: int, expected: Buffer, new: Buffer, *, fua: bool = False
    ) -> None:
        """Write new if the blocks equal expected, atomically; raise NvmeError if they differ.

        Raises OutcomeUnknown if the connection ends during the command, and ValueError if the
        controller does not support the command, and with the kernel's backend.
        """
        self._loop.call(self._namespace.compare_and_write(lba, expected, new, fua=fua))

    def flush(self) -> None:
        """Make all completed writes stable."""
        self._loop.call(self._namespace.flush())

    def write_zeroes(
        self, lba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
    ) -> None:
        """Set blocks to zeroes; deallocate: the controller may deallocate them."""
        work = self._namespace.write_zeroes(lba, blocks, deallocate=deallocate, fua=fua)
        self._loop.call(work)

    def write_uncorrectable(self, lba: int, blocks: int) -> None:
        """Mark blocks as invalid: reads of them fail until they are written again."""
        self._loop.call(self._namespace.write_uncorrectable(lba, blocks))

    def verify(self, lba: int, blocks: int, *, fua: bool = False) -> None:
        """Have the controller read blocks without sending them; fua: after making them stable."""
        self._loop.call(self._namespace.verify(lba, blocks, fua=fua))

    def deallocate(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Deallocate (first block, blocks) ranges: their data is no longer needed."""
        self._loop.call(self._namespace.deallocate(ranges))

    def copy(self, lba: int, ranges: Iterable[tuple[int, int]], *, fua: bool = False) -> None:
        """Have the controller copy (first block, blocks) ranges to lba, one after the other.

        Raises ValueError if the controller does not support Copy, or if the destination overlaps a
        range.
        """
        self._loop.call(self._namespace.copy(lba, ranges, fua=fua))

    @property
    def reservations(self) -> BlockingReservations:
        """The reservations of the namespace."""
        return BlockingReservations(self._loop, self._namespace.reservations)
