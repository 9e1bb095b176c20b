# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of one namespace, through the currently best path.

The methods and the errors are those of nvmf.initiator.Namespace. Long transfers are split before a
path is chosen, so that a policy spreads their pieces, and only the pieces whose path was lost are
sent again. Data is copied through buffers of the path: registered memory belongs to one device, and
two paths may use different ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from nvmf.engine import HostMemory
from nvmf.initiator.base.arguments import bytes_of
from nvmf.initiator.base.errors import ConnectionLost, NvmeError, OutcomeUnknown
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.many import OneByOne
from nvmf.initiator.base.pieces import Piece, transfer
from nvmf.initiator.client.namespace import Namespace
from nvmf.initiator.multipath.identity import Identity
from nvmf.initiator.multipath.reservations import MultipathReservations
from nvmf.spec.commands import MAX_BLOCKS
from nvmf.spec.identify import IdentifyNamespace

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nvmf.initiator.multipath.paths import Paths

T = TypeVar("T")


class MultipathNamespace(OneByOne):
    """A namespace of a subsystem: see Subsystem.namespaces."""

    def __init__(self, paths: Paths, first: Namespace) -> None:
        super().__init__(first.nsid, first.info, first.ids)
        self._paths = paths
        self.identity = Identity.of(first)
        """The identity that the namespace has on every path."""
        self.last = -1
        """The number of the path that was chosen last."""

    @property
    def most_blocks(self) -> int:
        """Maximum blocks of one command, for all paths."""
        most = min(self._paths.max_transfer, LARGEST) // self.block_size
        return min(max(most, 1), MAX_BLOCKS)

    # ---- data ----

    async def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; return its length in bytes."""
        with _plain(buffer) as view:
            if view.readonly:
                raise ValueError("a buffer to read into must be writable")

            async def piece(path: Namespace, first: int, part: memoryview) -> None:
                await path.readinto(first, part, fua=fua)

            await self._move("Read", lba, view, piece)
            return len(view)

    async def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on. fua: the data is stable when it returns."""

        async def piece(path: Namespace, first: int, part: memoryview) -> None:
            await path.write(first, part, fua=fua)

        with _plain(data) as view:
            await self._move("Write", lba, view, piece)

    async def compare(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Compare blocks with data; raise NvmeError (Compare Failure) if they differ.

        fua: the blocks are made stable first.
        """

        async def piece(path: Namespace, first: int, part: memoryview) -> None:
            await path.compare(first, part, fua=fua)

        with _plain(data) as view:
            await self._move("Compare", lba, view, piece)

    async def compare_and_write(
        self, lba: int, expected: Buffer, new: Buffer, *, fua: bool = False
    ) -> None:
        """Write new if the blocks equal expected, atomically: see nvmf.initiator.Namespace.

        If a path refuses the command with a path related status, it is sent by a different path. If
        a path is lost during the command, it may have been executed, or may still be:
        OutcomeUnknown is raised, with the data that a different path reads. The command is never
        sent twice, and it is not assumed to have been executed if the data equals new: a different
        host may have written the same.
        """
        with bytes_of(expected) as before, bytes_of(new) as after:
            old, put = bytes(before), bytes(after)
        try:
            await self._run(lambda path: path.compare_and_write(lba, old, put, fua=fua))
        except OutcomeUnknown as lost:
            raise OutcomeUnknown(f"{lost}; {await self._seen(lba, old, put)}") from None

    async def _seen(self, lba: int, old: bytes, put: bytes) -> str:
        """Return what is read after a lost Compare and Write, as text."""
        try:
            now = await self.read(lba, len(put) // self.block_size)
        except (NvmeError, ConnectionLost) as error:
            return f"it cannot be read now: {error}"
        found = {put: "the new data", old: "the expected data"}
        return (
            f"on a different path the blocks now have {found.get(now, 'neither old nor new data')}"
        )

    @property
    def reservations(self) -> MultipathReservations:
        """The reservations of the namespace.

        Raises ValueError if paths are connected with different host identifiers.
        """
        return MultipathReservations(self.nsid, self._run, self._paths.hostid)

    # ---- without data ----

    async def flush(self) -> None:
        """Make all completed writes stable, including those through other paths."""
        await self._run(lambda path: path.flush())

    async def write_zeroes(
        self, lba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
    ) -> None:
        """Set blocks to zeroes; deallocate: the controller may deallocate them."""
        lba, blocks = await self._range("Write Zeroes", lba, blocks)
        await self._run(lambda path: path.write_zeroes(lba, blocks, deallocate=deallocate, fua=fua))

    async def write_uncorrectable(self, lba: int, blocks: int) -> None:
        """Mark blocks as invalid: reads of them fail until they are written again."""
        lba, blocks = await self._range("Write Uncorrectable", lba, blocks)
        await self._run(lambda path: path.write_uncorrectable(lba, blocks))

    async def verify(self, lba: int, blocks: int, *, fua: bool = False) -> None:
        """Have the controller read blocks without sending them; raise NvmeError if it cannot.

        fua: the blocks are made stable first.
        """
        lba, blocks = await self._range("Verify", lba, blocks)
        await self._run(lambda path: path.verify(lba, blocks, fua=fua))

    async def deallocate(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Deallocate (first block, blocks) ranges: their data is no longer needed."""
        found = list(ranges)
        await self._run(lambda path: path.deallocate(found))

    async def copy(self, lba: int, ranges: Iterable[tuple[int, int]], *, fua: bool = False) -> None:
        """Have the controller copy (first block, blocks) ranges to lba, one after the other.

        It is repeated on another path if a path is lost. The target may still execute the first
        one until it notices the loss, so the source must not be written for that long.
        """
        found = list(ranges)
        await self._run(lambda path: path.copy(lba, found, fua=fua))

    # ---- implementation ----

    async def _run(self, work: Callable[[Namespace], Awaitable[T]]) -> T:
        return await self._paths.run(self, work)

    async def _look_again(self) -> None:
        async def looked(path: Namespace) -> IdentifyNamespace:
            await path._look_again()
            return path.info

        found = await self._run(looked)
        if found.nsze > self.info.nsze:  # this path received the new size before the first one
            self.info = found

    async def _move(self, name: str, lba: int, view: memoryview, piece: _Piecewise) -> None:
        size = self.block_size
        blocks = self._blocks(lba, len(view))
        lba, blocks = await self._range(name, lba, blocks)

        async def step(of: Piece) -> None:
            with view[of.offset : of.offset + of.blocks * size] as part:
                await self._run(lambda path: piece(path, of.lba, part))

        await transfer(lba, blocks, self.most_blocks, size, step)


if TYPE_CHECKING:
    _Piecewise = Callable[[Namespace, int, memoryview], Awaitable[None]]


def _plain(buffer: Buffer) -> memoryview:
    """Return a buffer as bytes; raise ValueError if it is registered with one path's device."""
    view = bytes_of(buffer)
    if isinstance(view.obj, HostMemory):
        view.release()
        raise ValueError(
            "the buffer is registered memory of one path's controller, and the other paths cannot "
            "reach it: give any other buffer, or one of Subsystem.alloc()"
        )
    return view
