# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of one namespace: read, write, and what else the NVM command set has for them.

Transfers longer than a command may be are split, and the pieces run side by side, several in
flight: a long write is not atomic, nor is it in order.  One that goes behind the end of the
namespace fails before anything is written.  Data moves without a copy where the caller
passes registered memory (Controller.alloc or register, or a memoryview of it), which then belongs
to the command until it ends; else it is copied through the controller's pool.

Every method raises NvmeError where the controller answers with an error status, ConnectionLost
where the controller is out of reach for good, and ValueError for arguments that cannot be.  A
namespace whose NSID comes to be another one's (another NGUID, EUI64 or UUID, or blocks of another
size) is of no use any more: nothing is sent, and the controller has another object for the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nvmf.engine import HostMemory
from nvmf.initiator.base.geometry import Geometry
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.pieces import Piece, groups, split, transfer
from nvmf.initiator.base.reservations import Reservations
from nvmf.initiator.client.buffers import BufferPool
from nvmf.initiator.client.many import Many
from nvmf.initiator.client.request import Data
from nvmf.spec import commands
from nvmf.spec.commands import MAX_BLOCKS, MAX_DSM_RANGES
from nvmf.spec.identify import IdentifyNamespace, NamespaceIds, Oncs

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nvmf.initiator.client.controller import Controller

_MAX_RANGE = 0xFFFFFFFF


class Namespace(Geometry):
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
        """The bytes of blocks logical blocks from lba on."""
        length = self._length(lba, blocks)
        if self._limit(LARGEST) >= blocks > 0:
            sqe = commands.read(self.nsid, lba, blocks, fua=fua)
            with await self._pool.take(length) as slot:
                data = Data(slot.memory, slot.offset, length, False, slot)
                await self._run(sqe, "Read", data, lba, blocks)
                return bytes(slot.view[:length])
        into = bytearray(length)
        await self.readinto(lba, into, fua=fua)
        return bytes(into)

    async def readinto(self, lba: int, buffer: Buffer | HostMemory, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; its length in bytes."""
        registered = _registered(buffer)
        if registered:
            memory, base, length = registered
            await self._move(
                lambda lba, blocks: commands.read(self.nsid, lba, blocks, fua=fua),
                "Read",
                lba,
                self._blocks(lba, length),
                memory,
                base,
                to_device=False,
            )
            return length
        with memoryview(buffer) as original, original.cast("B") as view:
            if view.readonly:
                raise ValueError("a buffer to read into is writable")

            async def step(piece: Piece) -> None:
                sqe = commands.read(self.nsid, piece.lba, piece.blocks, fua=fua)
                size = piece.blocks * self.block_size
                with await self._pool.take(size) as slot:
                    data = Data(slot.memory, slot.offset, size, False, slot)
                    await self._run(sqe, "Read", data, piece.lba, piece.blocks)
                    view[piece.offset : piece.offset + size] = slot.view[:size]

            await self._each(lba, self._blocks(lba, len(view)), self._limit(LARGEST), step)
            return len(view)

    async def write(self, lba: int, data: Buffer | HostMemory, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on.  fua: each is stable before it completes."""
        await self._send(
            lambda lba, blocks: commands.write(self.nsid, lba, blocks, fua=fua), "Write", lba, data
        )

    async def compare(self, lba: int, data: Buffer | HostMemory) -> None:
        """Compare blocks with data: NvmeError (Compare Failure) where they differ."""
        await self._send(
            lambda lba, blocks: commands.compare(self.nsid, lba, blocks), "Compare", lba, data
        )

    async def compare_and_write(
        self, lba: int, expected: Buffer, new: Buffer, *, fua: bool = False
    ) -> None:
        """Write new where the blocks are as expected, as one: what locks are made of.

        NvmeError (Compare Failure) where they differ, and nothing is written.  Most controllers do
        this with one block (ACWU of Identify Controller).  It is not sent again where the
        connection ends under it: OutcomeUnknown.  ValueError where the controller has no such
        command.
        """
        if not self._controller.identify.fuses & 1:
            raise ValueError(f"the controller of namespace {self.nsid} has no Compare and Write")
        old, put = bytes(expected), bytes(new)
        blocks = self._blocks(lba, len(old))
        if len(old) != len(put) or not blocks:
            raise ValueError(f"{len(old)} bytes to compare with and {len(put)} to write")
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
    def reservations(self) -> Reservations:
        """What is reserved of the namespace, and for whom."""
        return Reservations(self)

    # ---- many at once ----

    @property
    def most_blocks(self) -> int:
        """Blocks that one command transfers at most."""
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
        of them: for thousands of small reads this is many times as fast as read().

        Args:
            lbas: LBAs in any order; an array of unsigned 64-bit numbers is the quickest.
            into: len(lbas) * blocks * block_size bytes. Registered memory is used as it is; any
                other buffer is registered for the call.
            blocks: Blocks of each command, at most most_blocks.

        Returns:
            The bytes read.

        Raises:
            NvmeError: A command failed; the buffer may hold what others have read.
            ValueError: The buffer has another length, or a range is outside the namespace.
        """
        return await self._many(lbas, into, blocks, write=False, fua=fua)

    async def write_many(
        self,
        lbas: Iterable[int] | Buffer,
        data: Buffer | HostMemory,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Write blocks logical blocks from each LBA on, out of data, one after the other.

        As read_many(). The order of the writes is not defined, also if LBAs repeat. A buffer that
        is not registered has to be writable, or it is copied.

        Returns:
            The bytes written.
        """
        return await self._many(lbas, data, blocks, write=True, fua=fua)

    async def _many(
        self,
        lbas: Iterable[int] | Buffer,
        buffer: Buffer | HostMemory,
        blocks: int,
        *,
        write: bool,
        fua: bool,
    ) -> int:
        registered = _registered(buffer)
        if registered:
            memory, base, length = registered
            many = Many(self, lbas, blocks, length, write=write, fua=fua)
            await many.run(self._controller, memory, base)
            return length
        with memoryview(buffer) as original, original.cast("B") as view:
            many = Many(self, lbas, blocks, len(view), write=write, fua=fua)
            if view.readonly and not write:
                raise ValueError("a buffer to read into is writable")
            if not many.count:
                return 0
            memory = self._controller.register(bytearray(view) if view.readonly else view)
            try:
                await many.run(self._controller, memory, 0)
            finally:
                memory.close()
            return len(view)

    # ---- without data ----

    async def flush(self) -> None:
        """Make stable what was completed before."""
        await self._run(commands.flush(self.nsid), "Flush")

    async def write_zeroes(
        self, lba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
    ) -> None:
        """Set blocks to zeroes; deallocate: the controller may free them for it."""

        async def step(piece: Piece) -> None:
            sqe = commands.write_zeroes(
                self.nsid, piece.lba, piece.blocks, deallocate=deallocate, fua=fua
            )
            await self._run(sqe, "Write Zeroes", None, piece.lba, piece.blocks)

        self._length(lba, blocks)
        limit = self._limit_of(self._controller.session.nvm.wzsl)
        await self._each(lba, blocks, limit, step)

    async def write_uncorrectable(self, lba: int, blocks: int) -> None:
        """Mark blocks as invalid: reads of them fail until they are written again.

        Their data is lost.  ValueError where the controller has no such command.
        """
        if not self._controller.identify.oncs & Oncs.WRITE_UNCORRECTABLE:
            raise ValueError(f"the controller of namespace {self.nsid} has no Write Uncorrectable")

        async def step(piece: Piece) -> None:
            sqe = commands.write_uncorrectable(self.nsid, piece.lba, piece.blocks)
            await self._run(sqe, "Write Uncorrectable", None, piece.lba, piece.blocks)

        self._length(lba, blocks)
        await self._each(lba, blocks, self._limit_of(self._controller.session.nvm.wusl), step)

    async def verify(self, lba: int, blocks: int) -> None:
        """Have the controller read blocks without sending them: NvmeError where it cannot."""

        async def step(piece: Piece) -> None:
            sqe = commands.verify(self.nsid, piece.lba, piece.blocks)
            await self._run(sqe, "Verify", None, piece.lba, piece.blocks)

        self._length(lba, blocks)
        await self._each(lba, blocks, self._limit_of(self._controller.session.nvm.vsl), step)

    async def deallocate(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Tell that the data of (first block, blocks) ranges is needed no more."""
        nvm = self._controller.session.nvm
        longest = nvm.dmrsl or _MAX_RANGE
        pieces: list[tuple[int, int]] = []
        for lba, blocks in ranges:
            self._length(lba, blocks)
            pieces += [(part.lba, part.blocks) for part in split(lba, blocks, longest, 0)]
        # Those behind the end go first, which the controller refuses before it did any other.
        pieces.sort(key=lambda piece: sum(piece) <= self.blocks)
        for group in groups(pieces, nvm.dmrl or MAX_DSM_RANGES):
            sqe = commands.dataset_management(self.nsid, len(group))
            await self.send(sqe, "Dataset Management (deallocate)", commands.dsm_ranges(group))

    # ---- any other command ----

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """Run an I/O command that takes content (at most 256 KiB); name is for errors."""
        with await self._pool.take(len(content)) as slot:
            slot.view[: len(content)] = content
            await self._run(sqe, name, Data(slot.memory, slot.offset, len(content), True, slot))

    async def receive(self, sqe: bytes, name: str, length: int) -> bytes:
        """Run an I/O command that gives length bytes (at most 256 KiB); name is for errors."""
        with await self._pool.take(length) as slot:
            slot.view[:length] = bytes(length)
            await self._run(sqe, name, Data(slot.memory, slot.offset, length, False, slot))
            return bytes(slot.view[:length])

    # ---- how ----

    def _limit(self, most: int) -> int:
        """Blocks of one command that transfers at most most bytes."""
        limit = min(self._controller.max_transfer, most) // self.block_size
        return min(max(limit, 1), MAX_BLOCKS)

    def _limit_of(self, exponent: int) -> int:
        """Blocks of one command whose limit is given as MDTS is; 0: that of MDTS itself."""
        if not exponent:
            return self._limit(self._controller.max_transfer)
        limit = (1 << (12 + exponent)) // self.block_size
        return min(max(limit, 1), MAX_BLOCKS)

    async def _run(
        self,
        sqe: bytes,
        name: str,
        data: Data | None = None,
        lba: int | None = None,
        blocks: int | None = None,
    ) -> None:
        await self._controller.execute_io(sqe, name, data, of=self, lba=lba, blocks=blocks)

    async def _each(self, lba: int, blocks: int, limit: int, step: _Step) -> None:
        await transfer(lba, blocks, limit, self.block_size, self.blocks, step)

    async def _send(self, build: _Build, name: str, lba: int, data: Buffer | HostMemory) -> None:
        registered = _registered(data)
        if registered:
            memory, base, length = registered
            blocks = self._blocks(lba, length)
            await self._move(build, name, lba, blocks, memory, base, to_device=True)
            return
        with memoryview(data) as original, original.cast("B") as view:

            async def step(piece: Piece) -> None:
                size = piece.blocks * self.block_size
                with await self._pool.take(size) as slot:
                    slot.view[:size] = view[piece.offset : piece.offset + size]
                    moving = Data(slot.memory, slot.offset, size, True, slot)
                    sqe = build(piece.lba, piece.blocks)
                    await self._run(sqe, name, moving, piece.lba, piece.blocks)

            await self._each(lba, self._blocks(lba, len(view)), self._limit(LARGEST), step)

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
    from collections.abc import Coroutine
    from typing import Any

    _Step = Callable[[Piece], Coroutine[Any, Any, None]]
    _Build = Callable[[int, int], bytes]


def _registered(buffer: Buffer | HostMemory) -> tuple[HostMemory, int, int] | None:
    """(memory, offset, length in bytes) of a buffer that is registered, else None."""
    if isinstance(buffer, HostMemory):
        return buffer, 0, len(buffer)
    if isinstance(buffer, memoryview) and isinstance(buffer.obj, HostMemory):
        offset = buffer.obj.offset_of(buffer)
        return buffer.obj, offset, buffer.nbytes
    return None
