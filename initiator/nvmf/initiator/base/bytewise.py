# SPDX-License-Identifier: BSD-3-Clause
"""Reads and writes of bytes at an offset, for any kind of namespace, named as in module os.

A controller moves whole blocks.  A read of other bytes reads the blocks around them and copies the
part that was asked for.  A write of other bytes is refused: it would have to read a block, change a
part and write it back, and a write of another host in between would be lost.  (open() of the
synchronous API does that, for a caller who is the only writer.)
"""

from __future__ import annotations

import asyncio
import io
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

from nvmf.initiator.base.arguments import bytes_of, writable
from nvmf.initiator.base.geometry import Geometry
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.pieces import pipeline

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Bytewise(Geometry):
    """The methods that take offsets in bytes, implemented with those that take blocks."""

    @abstractmethod
    async def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; return its length in bytes."""

    @abstractmethod
    async def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on."""

    async def read(self, lba: int, blocks: int, *, fua: bool = False) -> bytes:
        """Return blocks logical blocks from lba on: blocks * block_size bytes."""
        lba, blocks = await self._range("Read", lba, blocks)
        into = io.BytesIO(bytes(blocks * self.block_size))  # getvalue() does not copy
        with into.getbuffer() as view:
            await self.readinto(lba, view, fua=fua)
        return into.getvalue()

    async def pread(self, n: int, offset: int, *, fua: bool = False) -> bytes:
        """Return n bytes from a byte offset on.

        Any n and offset: if they are not multiples of block_size, the blocks around them are read.
        Raises NvmeError (LBA Out of Range), before anything is allocated or sent, if the range
        extends past the end of the namespace, and TypeError or ValueError for an invalid range.
        """
        offset, n = await self._byte_range("pread", offset, n)
        size = self.block_size
        if not (n % size or offset % size):
            return await self.read(offset // size, n // size, fua=fua)
        into = io.BytesIO(bytes(n))
        with into.getbuffer() as view:
            await self._fill(view, offset, fua)
        return into.getvalue()

    async def preadinto(self, buffer: Buffer, offset: int, *, fua: bool = False) -> int:
        """Fill a writable buffer of any length from a byte offset on, and return its length.

        Raises what pread() does.
        """
        with writable(buffer) as view:
            offset, _ = await self._byte_range("preadinto", offset, len(view))
            await self._fill(view, offset, fua)
            return len(view)

    async def preadv(self, buffers: Sequence[Buffer], offset: int, *, fua: bool = False) -> int:
        """Fill writable buffers, one after the other, from a byte offset on; return the bytes read.

        Buffers that are not whole blocks are filled from one temporary buffer of their total
        length.  Raises what pread() does.
        """
        with ExitStack() as stack:
            views = [stack.enter_context(writable(buffer)) for buffer in buffers]
            total = sum(map(len, views))
            offset, _ = await self._byte_range("preadv", offset, total)
            if self._is_whole(offset, views):

                async def fill(part: tuple[memoryview, int]) -> None:
                    await self.readinto(part[1], part[0], fua=fua)

                await pipeline(self._parts(offset, views), fill)
                return total
            with memoryview(await self.pread(total, offset, fua=fua)) as found:
                done = 0
                for view in views:
                    view[:] = found[done : done + len(view)]
                    done += len(view)
            return total

    async def stream(
        self, offset: int = 0, n: int | None = None, *, chunk: int = 1 << 20, window: int = 4
    ) -> AsyncGenerator[bytes, None]:
        """Yield n bytes from a byte offset on, in order, chunk bytes at a time; None: to the end.

        Up to window chunks are read ahead of the caller, who therefore holds window * chunk bytes
        at most.  The last chunk may be shorter.  Leaving the loop early ends the reads: use
        contextlib.aclosing() if that has to happen at once.  Raises what pread() does.
        """
        if chunk < 1 or window < 1:
            raise ValueError(f"chunk and window are at least 1, not {chunk} and {window}")
        n = self.size - offset if n is None else n
        offset, n = await self._byte_range("stream", offset, n)
        starts = iter(range(offset, offset + n, chunk))
        ahead: deque[asyncio.Task[bytes]] = deque()
        try:
            while True:
                for start in islice(starts, window - len(ahead)):
                    length = min(chunk, offset + n - start)
                    ahead.append(asyncio.create_task(self.pread(length, start)))
                if not ahead:
                    return
                data = await ahead[0]
                ahead.popleft()
                yield data
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def pwrite(self, buffer: Buffer, offset: int, *, fua: bool = False) -> int:
        """Write a buffer from a byte offset on, and return its length.

        Both must be multiples of block_size, because a block is written as a whole; otherwise
        ValueError is raised. Raises NvmeError (LBA Out of Range) if the range extends past the end
        of the namespace. Nothing is sent in either case.
        """
        with bytes_of(buffer) as view:
            offset, _ = await self._byte_range("pwrite", offset, len(view))
            self._require_whole("pwrite", offset, len(view))
            await self.write(offset // self.block_size, view, fua=fua)
            return len(view)

    async def pwritev(self, buffers: Sequence[Buffer], offset: int, *, fua: bool = False) -> int:
        """Write buffers, one after the other, from a byte offset on; return the bytes written.

        The offset and the total length must be multiples of block_size; otherwise ValueError is
        raised. If one of the buffers is not whole blocks, all are copied into one first. The parts
        are written side by side: not atomically, nor in order.
        """
        with ExitStack() as stack:
            views = [stack.enter_context(bytes_of(buffer)) for buffer in buffers]
            total = sum(map(len, views))
            offset, _ = await self._byte_range("pwritev", offset, total)
            self._require_whole("pwritev", offset, total)
            if not self._is_whole(offset, views):
                await self.write(offset // self.block_size, b"".join(views), fua=fua)
                return total

            async def put(part: tuple[memoryview, int]) -> None:
                await self.write(part[1], part[0], fua=fua)

            await pipeline(self._parts(offset, views), put)
            return total

    def _is_whole(self, offset: int, views: list[memoryview]) -> bool:
        return not any(number % self.block_size for number in (offset, *map(len, views)))

    def _parts(self, offset: int, views: list[memoryview]) -> list[tuple[memoryview, int]]:
        """Yield buffers of whole blocks, each with its LBA."""
        parts = []
        for view in views:
            parts.append((view, offset // self.block_size))
            offset += len(view)
        return parts

    def _require_whole(self, name: str, offset: int, length: int) -> None:
        if offset % self.block_size or length % self.block_size:
            raise ValueError(
                f"{name} of {length} bytes at offset {offset}: namespace {self.nsid} is written in "
                f"whole blocks of {self.block_size} bytes, so both are multiples of that"
            )

    async def _fill(self, view: memoryview, offset: int, fua: bool) -> None:
        """Read any range within the namespace into a view."""
        size = self.block_size
        end = offset + len(view)
        first, last = offset // size, -(-end // size)
        if not (offset % size or end % size) or not len(view):
            await self.readinto(first, view, fua=fua)
            return
        if (last - first) * size <= LARGEST:
            found = await self.read(first, last - first, fua=fua)
            skip = offset - first * size
            with memoryview(found) as whole_blocks:
                view[:] = whole_blocks[skip : skip + len(view)]
            return
        # The first and the last block are copied in part; those between them are read in place.
        begin = -(-offset // size) * size
        stop = end // size * size
        cuts = ((offset, begin), (begin, stop), (stop, end))

        async def part(cut: tuple[int, int]) -> None:
            with view[cut[0] - offset : cut[1] - offset] as piece:
                await self._fill(piece, cut[0], fua)

        await pipeline([cut for cut in cuts if cut[0] < cut[1]], part)
