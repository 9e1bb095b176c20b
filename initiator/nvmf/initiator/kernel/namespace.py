# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of a namespace through its block device: direct I/O, on threads.

It has the methods of the client's namespace (nvmf.initiator.client.namespace), and the same errors,
as far as the kernel reports them: an errno for reads and writes, the status for other commands.
Commands without a call of the block layer are passed to the controller.
"""

from __future__ import annotations

import contextlib
import errno as errnos
import fcntl
import os
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nvmf.initiator.base.arguments import bytes_of, writable
from nvmf.initiator.base.copying import copy_blocks
from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.many import OneByOne
from nvmf.initiator.base.memory import KernelMemory, is_aligned
from nvmf.initiator.base.reservations import Reservations
from nvmf.initiator.kernel.errors import KernelError, errno_name
from nvmf.initiator.kernel.ioctl import IO, pieces, submit
from nvmf.spec import commands
from nvmf.spec.commands import MAX_BLOCKS
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds
from nvmf.spec.status import DNR, Status

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nvmf.initiator.kernel.controller import KernelController
    from nvmf.initiator.kernel.sysfs import NamespaceInfo

_BLKDISCARD, _BLKZEROOUT = 0x1277, 0x127F
_RANGE = struct.Struct("=QQ")
"""First byte, and number of bytes."""
_PIECE = 1 << 20
"""Bytes of one system call, which the block layer splits into commands in flight together."""
_PASSTHRU_PIECE = 128 << 10
_STATUS: dict[int, int] = {
    errnos.ENOSPC: Status.CAPACITY_EXCEEDED,
    errnos.ENODATA: Status.UNRECOVERED_READ_ERROR,
    errnos.EILSEQ: Status.GUARD_CHECK_ERROR,
    errnos.EBADE: Status.RESERVATION_CONFLICT,
    errnos.EROFS: Status.NAMESPACE_WRITE_PROTECTED,
    errnos.EBADF: Status.NAMESPACE_WRITE_PROTECTED,
    errnos.EPERM: Status.NAMESPACE_WRITE_PROTECTED,
    errnos.EOPNOTSUPP: Status.INVALID_OPCODE,
}
"""The status behind an errno of the block layer (Linux block/blk-core.c, nvme_error_status())."""


class KernelNamespace(OneByOne):
    """An active namespace of a controller of the kernel: see KernelController.namespaces."""

    def __init__(
        self,
        controller: KernelController,
        block: NamespaceInfo,
        info: IdentifyNamespace,
        ids: NamespaceIds,
        queue: Path,
    ) -> None:
        """queue: the block device's folder of that name in sysfs."""
        super().__init__(block.nsid, info, ids)
        self._controller = controller
        self._queue = queue
        self._limit = min(_PASSTHRU_PIECE, _passthru_bytes(queue))
        self._file = _open(block.path)
        self.block = block
        """The block device."""

    @property
    def most_blocks(self) -> int:
        """Maximum blocks of one command."""
        return min(MAX_BLOCKS, max(1, self._controller.max_transfer // self.block_size))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.block.path}>"

    @property
    def path(self) -> str:
        """Path of the block device."""
        return self.block.path

    @property
    def block_size(self) -> int:
        """Bytes of a logical block."""
        return self.block.block_size

    # ---- data ----

    async def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; return its length in bytes."""
        with writable(buffer) as view:
            blocks = self._blocks(lba, len(view))
            lba, blocks = await self._range("Read", lba, blocks)
            await self._run("Read", lba, blocks, lambda: self._read(lba, view, fua))
            return len(view)

    async def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on. fua: the data is stable when it returns."""
        with bytes_of(data) as view:
            blocks = self._blocks(lba, len(view))
            lba, blocks = await self._range("Write", lba, blocks)
            await self._run("Write", lba, blocks, lambda: self._write(lba, view, fua))

    async def compare(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Compare blocks with data; raise NvmeError (Compare Failure) if they differ.

        fua: the blocks are made stable first.
        """
        with bytes_of(data) as view:
            blocks = self._blocks(lba, len(view))
            lba, blocks = await self._range("Compare", lba, blocks)
            await self._run("Compare", lba, blocks, lambda: self._compare(lba, view, fua))

    # ---- without data ----

    async def flush(self) -> None:
        """Make all completed writes stable."""
        await self._run("Flush", None, None, lambda: os.fsync(self._file))

    async def write_zeroes(
        self, lba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
    ) -> None:
        """Set blocks to zeroes; deallocate: the controller may deallocate them."""

        def work() -> None:
            if not deallocate:
                self._ioctl(_BLKZEROOUT, lba, blocks)
                if fua:
                    os.fsync(self._file)
                return
            for first, count in pieces(lba, blocks, MAX_BLOCKS):
                sqe = commands.write_zeroes(self.nsid, first, count, deallocate=True, fua=fua)
                submit(self._file, IO, sqe, "Write Zeroes", lba=first, blocks=count)

        lba, blocks = await self._range("Write Zeroes", lba, blocks)
        await self._run("Write Zeroes", lba, blocks, work)

    async def compare_and_write(
        self, lba: int, expected: Buffer, new: Buffer, *, fua: bool = False
    ) -> None:
        """Raise ValueError: Linux sends no fused commands."""
        raise ValueError(
            "Linux sends no fused commands, and so no Compare and Write: connect with the native "
            "backend for it"
        )

    async def write_uncorrectable(self, lba: int, blocks: int) -> None:
        """Mark blocks as invalid: reads of them fail until they are written again."""
        await self._without_data("Write Uncorrectable", commands.write_uncorrectable, lba, blocks)

    async def verify(self, lba: int, blocks: int, *, fua: bool = False) -> None:
        """Have the controller read blocks without sending them; raise NvmeError if it cannot.

        fua: the blocks are made stable first.
        """
        build = partial(commands.verify, fua=fua)
        await self._without_data("Verify", build, lba, blocks)

    async def _without_data(
        self, name: str, build: Callable[[int, int, int], bytes], lba: int, blocks: int
    ) -> None:
        def work() -> None:
            most = self.most_blocks
            for first, count in pieces(lba, blocks, most):
                submit(
                    self._file, IO, build(self.nsid, first, count), name, lba=first, blocks=count
                )

        lba, blocks = await self._range(name, lba, blocks)
        await self._run(name, lba, blocks, work)

    async def deallocate(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Deallocate (first block, blocks) ranges: their data is no longer needed."""
        found = list(ranges)
        name = "Dataset Management (deallocate)"
        for lba, blocks in found:
            lba, blocks = await self._range(name, lba, blocks)

        def work() -> None:
            for lba, blocks in found:
                self._ioctl(_BLKDISCARD, lba, blocks)

        await self._run(name, None, None, work)

    async def copy(self, lba: int, ranges: Iterable[tuple[int, int]], *, fua: bool = False) -> None:
        """Have the controller copy (first block, blocks) ranges to lba, one after the other.

        Raises ValueError if it has no Copy, or the destination overlaps a range. fua: as in write.
        """
        await copy_blocks(self, self._controller.identify.oncs, lba, ranges, fua)

    # ---- reservations ----

    @property
    def reservations(self) -> Reservations:
        """The reservations of the namespace."""
        return Reservations(self)

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """Run an I/O command that takes content; name is for errors."""

        def work() -> None:
            with KernelMemory(len(content)) as memory:
                memory[:] = content
                submit(self._file, IO, sqe, name, memory, len(content))

        await self._run(name, None, None, work)

    async def receive(self, sqe: bytes, name: str, length: int) -> bytes:
        """Run an I/O command that returns length bytes; name is for errors."""
        found = b""

        def work() -> None:
            nonlocal found
            with KernelMemory(length) as memory:
                submit(self._file, IO, sqe, name, memory, length)
                found = bytes(memory)

        await self._run(name, None, None, work)
        return found

    # ---- implementation ----

    async def _run(
        self,
        name: str,
        lba: int | None,
        blocks: int | None,
        work: Callable[[], object],
    ) -> None:
        """Return the result of work, run on a thread, with errors as the client raises them."""

        def guarded() -> None:
            try:
                work()
            except (NvmeError, KernelError, ConnectionLost):
                raise
            except OSError as error:
                raise self._failed(error, name, lba, blocks) from None

        await self._controller.on_thread(guarded)

    async def _look_again(self) -> None:
        """Read the size of the block device: the kernel updates it if the namespace is resized."""

        def ask() -> None:
            with contextlib.suppress(OSError):
                size = os.lseek(self._file, 0, os.SEEK_END)
                self.info = replace(self.info, nsze=size // self.block_size)

        await self._controller.on_thread(ask)

    def _failed(
        self, error: OSError, name: str, lba: int | None, blocks: int | None
    ) -> NvmeError | ConnectionLost:
        number = error.errno or 0
        self._controller.check_usable()
        status = _STATUS.get(number)
        if number == errnos.ENODATA and name == "Write":
            status = Status.WRITE_FAULT
        if status is not None:
            return NvmeError.of(name, status | DNR, io=True, nsid=self.nsid, lba=lba, blocks=blocks)
        return ConnectionLost(
            f"{name} in namespace {self.nsid} ({self.path}) failed: {error.strerror} "
            f"({errno_name(number)}); dmesg has the kernel's reason"
        )

    def _read(self, lba: int, view: memoryview, fua: bool) -> None:
        if fua:  # the block layer does not support such a read
            self._passthru(lba, view, _reads_fua, "Read", into=True)
            return
        for offset, length in pieces(0, len(view), _PIECE):
            at = lba * self.block_size + offset
            with view[offset : offset + length] as part, self._direct(part) as (area, copied):
                _whole(length, os.preadv(self._file, [area], at))
                if copied:
                    part[:] = area

    def _write(self, lba: int, view: memoryview, fua: bool) -> None:
        flags = os.RWF_DSYNC if fua else 0
        for offset, length in pieces(0, len(view), _PIECE):
            at = lba * self.block_size + offset
            with view[offset : offset + length] as part, self._direct(part) as (area, copied):
                if copied:
                    area[:] = part
                _whole(length, os.pwritev(self._file, [area], at, flags))

    def _compare(self, lba: int, view: memoryview, fua: bool) -> None:
        self._passthru(lba, view, partial(commands.compare, fua=fua), "Compare", into=False)

    def _passthru(
        self,
        lba: int,
        view: memoryview,
        build: Callable[[int, int, int], bytes],
        name: str,
        *,
        into: bool,
    ) -> None:
        """Run passthrough commands, one for each piece: build(nsid, lba, blocks)."""
        most = max(self._limit // self.block_size, 1) * self.block_size
        for offset, length in pieces(0, len(view), most):
            first, blocks = lba + offset // self.block_size, length // self.block_size
            with KernelMemory(length) as memory:
                if not into:
                    memory[:] = view[offset : offset + length]
                sqe = build(self.nsid, first, blocks)
                submit(self._file, IO, sqe, name, memory, length, lba=first, blocks=blocks)
                if into:
                    view[offset : offset + length] = memory[:]

    @contextlib.contextmanager
    def _direct(self, part: memoryview) -> Iterator[tuple[memoryview, bool]]:
        """Return a view that direct I/O accepts: the view itself, or temporary pages to copy."""
        if is_aligned(part, self.block_size):
            yield part, False
            return
        with KernelMemory(len(part)) as memory, memoryview(memory) as area:
            yield area, True

    def _ioctl(self, request: int, lba: int, blocks: int) -> None:
        if blocks:
            size = self.block_size
            fcntl.ioctl(self._file, request, bytearray(_RANGE.pack(lba * size, blocks * size)))

    def update(self, block: NamespaceInfo, info: IdentifyNamespace, ids: NamespaceIds) -> None:
        """Use values that were read again."""
        self.block, self.info, self.ids = block, info, ids

    def close(self) -> None:
        """Close the block device.  Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


if TYPE_CHECKING:
    from collections.abc import Iterator


def _reads_fua(nsid: int, lba: int, blocks: int) -> bytes:
    return commands.read(nsid, lba, blocks, fua=True)


def _open(path: str) -> int:
    """Open the block device for direct I/O; read-only if it cannot be written."""
    flags = os.O_DIRECT | os.O_CLOEXEC
    try:
        try:
            return os.open(path, os.O_RDWR | flags)
        except OSError as error:
            if error.errno not in (errnos.EROFS, errnos.EACCES, errnos.EPERM):
                raise
            return os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        raise KernelError(f"cannot open {path}: {error.strerror}", errno=error.errno) from None


def _whole(wanted: int, moved: int) -> None:
    if moved != wanted:
        raise OSError(errnos.EIO, f"{moved} of {wanted} bytes were transferred")


def _passthru_bytes(queue: Path) -> int:
    """Return the maximum bytes of a passthrough command, with a segment for each page."""
    limits = []
    for name, unit in (("max_hw_sectors_kb", 1024), ("max_segments", 4096)):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((queue / name).read_text()) * unit)
    return max(min(limits, default=_PASSTHRU_PIECE), 4096)
