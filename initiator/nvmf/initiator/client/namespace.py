# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of one namespace: read, write, and the other commands of the NVM command set.

Transfers that exceed the maximum of one command are split, and several pieces are in flight at a
time: a long write is neither atomic nor in order. If one fails, no other is sent, and the error is
raised when those that were sent have ended. A range that extends past the end of the
namespace is refused before anything is allocated or sent. Data moves without a copy if the caller
passes registered memory (Controller.alloc or register, or a memoryview of it), which then belongs
to the command until it ends; otherwise it is copied once, through the controller's pool.

Every method raises NvmeError if the controller answers with an error status, ConnectionLost if the
connection is lost and not made again, and ValueError or TypeError for wrong arguments: blocks are
counted in whole numbers, and a buffer must be open, contiguous and a whole number of blocks long
(pread() and related methods count in bytes).

If a caller is cancelled, or its timeout expires, commands that were sent are not aborted: a
cancelled write may still be executed, and may replace the data of a later write to the same blocks,
until the connection ends (Controller.close or reset).

If the NSID is assigned to a different namespace (by its NGUID, EUI64, UUID or block size), the
object can no longer be used: nothing is sent, and the controller has a new object for that
namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING

from nvmf.engine import HostMemory
from nvmf.initiator.base.arguments import bytes_of, writable
from nvmf.initiator.base.bytewise import Bytewise
from nvmf.initiator.base.copying import copy_blocks
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.pieces import Piece, groups, split, transfer
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.many import move_many, registered_memory
from nvmf.initiator.client.request import Data
from nvmf.initiator.client.reservations import ClientReservations
from nvmf.spec import commands
from nvmf.spec.commands import MAX_BLOCKS, MAX_DSM_RANGES
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds, Oncs

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nvmf.initiator.client.controller import Controller

_MAX_RANGE = 0xFFFFFFFF


class Namespace(Bytewise):
    """An active namespace of a controller: see Controller.namespaces."""

    def __init__(
        self,
        controller: Controller,
        pool: BufferPool,
        nsid: int,
        info: IdentifyNamespace,
        ids: NamespaceIds,
    ) -> None:
        super().__init__(nsid, info, ids)
        self._controller = controller
        self._pool = pool

    @property
    def serial(self) -> str:
        """Serial number of its controller."""
        return self._controller.identify.sn

    # ---- data ----

    async def read(self, lba: int, blocks: int, *, fua: bool = False) -> bytes:
        """Return blocks logical blocks from lba on: blocks * block_size bytes."""
        if not self._inside(lba, blocks):
            lba, blocks = await self._range("Read", lba, blocks)
        length = blocks * self.block_size
        limit = min(self._controller.connection.session.max_transfer, LARGEST)
        if not 0 < length <= limit or blocks > MAX_BLOCKS:
            return await super().read(lba, blocks, fua=fua)
        sqe = commands.read(self.nsid, lba, blocks, fua=fua)
        slot = self._pool.take_now(length) or await self._pool.take(length)
        try:
            data = Data(slot.memory, slot.offset, length, False, slot)
            await self._controller.execute_io(sqe, "Read", data, of=self, lba=lba, blocks=blocks)
            return bytes(slot.view[:length])
        finally:
            slot.drop()

    async def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; return its length in bytes."""
        registered = registered_memory(buffer)
        if registered:
            memory, base, length = registered
            blocks = self._blocks(lba, length)
            lba, blocks = await self._range("Read", lba, blocks)
            await self._move(
                lambda lba, blocks: commands.read(self.nsid, lba, blocks, fua=fua),
                "Read",
                lba,
                blocks,
                memory,
                base,
                to_device=False,
            )
            return length
        with writable(buffer) as view:
            blocks = self._blocks(lba, len(view))
            lba, blocks = await self._range("Read", lba, blocks)

            async def step(piece: Piece) -> None:
                sqe = commands.read(self.nsid, piece.lba, piece.blocks, fua=fua)
                size = piece.blocks * self.block_size
                with await self._pool.take(size) as slot:
                    data = Data(slot.memory, slot.offset, size, False, slot)
                    await self._run(sqe, "Read", data, piece.lba, piece.blocks)
                    view[piece.offset : piece.offset + size] = slot.view[:size]

            await self._each(lba, blocks, self._limit(LARGEST), step)
            return len(view)

    async def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on. fua: the data is stable when it returns.

        If the caller is cancelled, the blocks may still be written later: see the module.
        """
        await self._send(
            lambda lba, blocks: commands.write(self.nsid, lba, blocks, fua=fua), "Write", lba, data
        )

    async def compare(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Compare blocks with data; raise NvmeError (Compare Failure) if they differ.

        fua: the blocks are made stable first.
        """
        await self._send(
            lambda lba, blocks: commands.compare(self.nsid, lba, blocks, fua=fua),
            "Compare",
            lba,
            data,
        )

    async def compare_and_write(
        self, lba: int, expected: Buffer, new: Buffer, *, fua: bool = False
    ) -> None:
        """Write new if the blocks equal expected, atomically, as needed for locks.

        Raises NvmeError (Compare Failure) if they differ; then nothing is written. Most controllers
        do this with one block (ACWU of Identify Controller). If the connection ends, the command is
        not sent again, and OutcomeUnknown is raised. Raises ValueError if the controller does not
        support the command.
        """
        if not self._controller.identify.fuses & 1:
            raise ValueError(
                f"the controller of namespace {self.nsid} does not support Compare and Write"
            )
        with bytes_of(expected) as before, bytes_of(new) as after:
            old, put = bytes(before), bytes(after)
        blocks = self._blocks(lba, len(old))
        if len(old) != len(put) or not blocks:
            raise ValueError(f"{len(old)} bytes to compare with and {len(put)} to write")
        lba, blocks = await self._range("Compare and Write", lba, blocks)
        first, second = commands.compare_and_write(self.nsid, lba, blocks, fua=fua)
        with await self._pool.take(2 * len(old)) as slot:
            slot.view[: 2 * len(old)] = old + put
            compared = Data(slot.memory, slot.offset, len(old), True, slot)
            written = Data(slot.memory, slot.offset + len(old), len(old), True, slot)
            await self._controller.execute_pair(
                [(first, compared), (second, written)],
                "Compare and Write",
                of=self,
                lba=lba,
                blocks=blocks,
            )

    @property
    def reservations(self) -> ClientReservations:
        """The reservations of the namespace."""
        return ClientReservations(self, self._controller.session.place.identity.id.bytes)

    # ---- many at once ----

    @property
    def most_blocks(self) -> int:
        """Maximum blocks of one command."""
        return self._limit(self._controller.max_transfer)

    async def read_many(
        self,
        lbas: Iterable[int] | Buffer,
        into: Buffer | HostMemory,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Read blocks logical blocks from each LBA on, into a writable buffer, one after the other.

        The engine keeps a queue full of commands, and the event loop is woken a few times for all
        of them: for thousands of small reads this is many times faster than read().

        Args:
            lbas: LBAs in any order; an array of unsigned 64-bit numbers is the quickest.
            into: len(lbas) * blocks * block_size bytes. Registered memory is used as it is; any
                other buffer is registered for this call.
            blocks: Blocks of each command, at most most_blocks.

        Returns:
            The bytes read.

        Raises:
            NvmeError: A command failed; the buffer may contain data of other commands; or a range
                extends past the end of the namespace, and nothing was sent.
            ValueError: The buffer has a different length.
        """
        if self.replaced:
            await self._controller.identify_again(self, "Read")
        return await move_many(self, self._controller, lbas, into, blocks, write=False, fua=fua)

    async def write_many(
        self,
        lbas: Iterable[int] | Buffer,
        data: Buffer | HostMemory,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Write blocks logical blocks from each LBA on, from consecutive parts of data.

        As read_many(). The order of the writes is undefined, even if LBAs repeat. A buffer that is
        not registered must be writable to be used without a copy.

        Returns:
            The bytes written.
        """
        if self.replaced:
            await self._controller.identify_again(self, "Write")
        return await move_many(self, self._controller, lbas, data, blocks, write=True, fua=fua)

    # ---- without data ----

    async def flush(self) -> None:
        """Make all completed writes stable."""
        await self._run(commands.flush(self.nsid), "Flush")

    async def write_zeroes(
        self, lba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
    ) -> None:
        """Set blocks to zeroes; deallocate: the controller may deallocate them."""

        async def step(piece: Piece) -> None:
            sqe = commands.write_zeroes(
                self.nsid, piece.lba, piece.blocks, deallocate=deallocate, fua=fua
            )
            await self._run(sqe, "Write Zeroes", None, piece.lba, piece.blocks)

        lba, blocks = await self._range("Write Zeroes", lba, blocks)
        limit = self._limit_of(self._controller.session.nvm.wzsl)
        await self._each(lba, blocks, limit, step)

    async def write_uncorrectable(self, lba: int, blocks: int) -> None:
        """Mark blocks as invalid: reads of them fail until they are written again.

        Their data is lost. Raises ValueError if the controller does not support the command.
        """
        if not self._controller.identify.oncs & Oncs.WRITE_UNCORRECTABLE:
            raise ValueError(
                f"the controller of namespace {self.nsid} does not support Write Uncorrectable"
            )

        async def step(piece: Piece) -> None:
            sqe = commands.write_uncorrectable(self.nsid, piece.lba, piece.blocks)
            await self._run(sqe, "Write Uncorrectable", None, piece.lba, piece.blocks)

        lba, blocks = await self._range("Write Uncorrectable", lba, blocks)
        await self._each(lba, blocks, self._limit_of(self._controller.session.nvm.wusl), step)

    async def verify(self, lba: int, blocks: int, *, fua: bool = False) -> None:
        """Have the controller read blocks without sending them; raise NvmeError if it cannot.

        fua: the blocks are made stable first.
        """

        async def step(piece: Piece) -> None:
            sqe = commands.verify(self.nsid, piece.lba, piece.blocks, fua=fua)
            await self._run(sqe, "Verify", None, piece.lba, piece.blocks)

        lba, blocks = await self._range("Verify", lba, blocks)
        await self._each(lba, blocks, self._limit_of(self._controller.session.nvm.vsl), step)

    async def deallocate(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Deallocate (first block, blocks) ranges: their data is no longer needed."""
        nvm = self._controller.session.nvm
        longest = nvm.dmrsl or _MAX_RANGE
        pieces: list[tuple[int, int]] = []
        for lba, blocks in ranges:
            lba, blocks = await self._range("Dataset Management (deallocate)", lba, blocks)
            pieces += [(part.lba, part.blocks) for part in split(lba, blocks, longest, 0)]
        for group in groups(pieces, nvm.dmrl or MAX_DSM_RANGES):
            sqe = commands.dataset_management(self.nsid, len(group))
            await self.send(sqe, "Dataset Management (deallocate)", commands.dsm_ranges(group))

    async def copy(self, lba: int, ranges: Iterable[tuple[int, int]], *, fua: bool = False) -> None:
        """Have the controller copy (first block, blocks) ranges to lba, one after the other.

        Raises ValueError if it has no Copy, or the destination overlaps a range. fua: as in write.
        """
        await copy_blocks(self, self._controller.identify.oncs, lba, ranges, fua)

    # ---- any other command ----

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """Run an I/O command that takes content (at most 256 KiB); name is for errors."""
        with await self._pool.take(len(content)) as slot:
            slot.view[: len(content)] = content
            await self._run(sqe, name, Data(slot.memory, slot.offset, len(content), True, slot))

    async def receive(self, sqe: bytes, name: str, length: int) -> bytes:
        """Run an I/O command that returns length bytes (at most 256 KiB); name is for errors."""
        with await self._pool.take(length) as slot:
            slot.view[:length] = bytes(length)
            await self._run(sqe, name, Data(slot.memory, slot.offset, length, False, slot))
            return bytes(slot.view[:length])

    # ---- implementation ----

    def _limit(self, most: int) -> int:
        """Return the blocks of one command that transfers at most `most` bytes."""
        limit = min(self._controller.max_transfer, most) // self.block_size
        return min(max(limit, 1), MAX_BLOCKS)

    def _limit_of(self, exponent: int) -> int:
        """Return the blocks of one command for a limit in the format of MDTS; 0: MDTS itself."""
        if not exponent:
            return self._limit(self._controller.max_transfer)
        limit = (1 << (12 + exponent)) // self.block_size
        return min(max(limit, 1), MAX_BLOCKS)

    def _run(
        self,
        sqe: bytes,
        name: str,
        data: Data | None = None,
        lba: int | None = None,
        blocks: int | None = None,
    ) -> Coroutine[object, object, None]:
        return self._controller.execute_io(sqe, name, data, of=self, lba=lba, blocks=blocks)

    async def _each(self, lba: int, blocks: int, limit: int, step: _Step) -> None:
        await transfer(lba, blocks, limit, self.block_size, step)

    async def _look_again(self) -> None:
        await self._controller.identify_again(self, "Identify")
        await self._controller.look_again(self.nsid)

    async def _send(self, build: _Build, name: str, lba: int, data: Buffer) -> None:
        registered = registered_memory(data)
        if registered:
            memory, base, length = registered
            blocks = self._blocks(lba, length)
            lba, blocks = await self._range(name, lba, blocks)
            await self._move(build, name, lba, blocks, memory, base, to_device=True)
            return
        with bytes_of(data) as view:
            blocks = self._blocks(lba, len(view))
            lba, blocks = await self._range(name, lba, blocks)

            async def step(piece: Piece) -> None:
                size = piece.blocks * self.block_size
                with await self._pool.take(size) as slot:
                    slot.view[:size] = view[piece.offset : piece.offset + size]
                    moving = Data(slot.memory, slot.offset, size, True, slot)
                    sqe = build(piece.lba, piece.blocks)
                    await self._run(sqe, name, moving, piece.lba, piece.blocks)

            await self._each(lba, blocks, self._limit(LARGEST), step)

    async def _move(
        self,
        build: _Build,
        name: str,
        lba: int,
        blocks: int,
        memory: HostMemory,
        base: int,
        *,
        to_device: bool,
    ) -> None:
        async def step(piece: Piece) -> None:
            size = piece.blocks * self.block_size
            data = Data(memory, base + piece.offset, size, to_device)
            sqe = build(piece.lba, piece.blocks)
            await self._run(sqe, name, data, piece.lba, piece.blocks)

        await self._each(lba, blocks, self._limit(self._controller.max_transfer), step)


if TYPE_CHECKING:
    _Step = Callable[[Piece], Coroutine[object, object, None]]
    _Build = Callable[[int, int], bytes]
