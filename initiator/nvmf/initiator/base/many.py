# SPDX-License-Identifier: BSD-3-Clause
"""Many Reads or Writes of one length in one call: the arguments, and the way without the engine."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from array import array
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from nvmf.initiator.base.geometry import Geometry

if TYPE_CHECKING:
    from typing_extensions import Buffer

WINDOW = 64
"""Commands under way at once."""


class Places:
    """Where the commands of one call go, checked against the namespace and the buffer."""

    def __init__(
        self,
        namespace: Geometry,
        lbas: Iterable[int] | Buffer,
        blocks: int,
        length: int,
        most: int,
    ) -> None:
        """length: bytes of the buffer; most: blocks of one command.

        Raises:
            ValueError: The arguments do not fit together, or a range is outside the namespace.
            TypeError: An LBA is not an integer.
        """
        self.lbas = as_array(lbas)
        self.count = len(self.lbas)
        self.blocks = blocks
        if not 0 < blocks <= most:
            raise ValueError(f"one command moves 1 to {most} blocks here, not {blocks}")
        self.bytes = blocks * namespace.block_size
        """Of each command."""
        if length != self.count * self.bytes:
            raise ValueError(
                f"{self.count} commands of {blocks} blocks of {namespace.block_size} bytes move "
                f"{self.count * self.bytes} bytes, and the buffer has {length}"
            )
        self.highest = max(self.lbas, default=0)
        if self.count and self.highest + blocks > namespace.blocks:
            raise ValueError(
                f"{blocks} blocks at LBA {self.highest} extend past the end of namespace "
                f"{namespace.nsid}, which has {namespace.blocks} blocks"
            )


def as_array(lbas: Iterable[int] | Buffer) -> array[int] | memoryview:
    """Return LBAs as unsigned 64-bit numbers, without a copy if they are such already.

    Raises:
        ValueError: One is negative, or too large.
        TypeError: One is not an integer.
    """
    try:
        view = memoryview(lbas)  # type: ignore[arg-type]
    except TypeError:
        pass
    else:
        if view.format in ("Q", "L", "<Q", "<L", "=Q") and view.itemsize == 8 and view.c_contiguous:
            return view.cast("B").cast("Q") if view.format != "Q" else view
    try:
        return array("Q", lbas)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError("an LBA is a number from 0 to 2^64 - 1") from None


class OneByOne(Geometry):
    """read_many() and write_many() by single commands, WINDOW of them at once."""

    @property
    @abstractmethod
    def most_blocks(self) -> int:
        """Blocks that one command transfers at most."""

    @abstractmethod
    async def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer."""

    @abstractmethod
    async def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks."""

    async def read_many(
        self,
        lbas: Iterable[int] | Buffer,
        into: Buffer,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Read blocks logical blocks from each LBA on: see nvmf.initiator.Namespace.read_many."""
        return await self._each(
            lbas, into, blocks, lambda at, part: self.readinto(at, part, fua=fua)
        )

    async def write_many(
        self,
        lbas: Iterable[int] | Buffer,
        data: Buffer,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Write blocks logical blocks from each LBA on: see nvmf.initiator.Namespace.write_many."""
        return await self._each(lbas, data, blocks, lambda at, part: self.write(at, part, fua=fua))

    async def _each(
        self,
        lbas: Iterable[int] | Buffer,
        buffer: Buffer,
        blocks: int,
        step: Callable[[int, memoryview], Coroutine[Any, Any, object]],
    ) -> int:
        with memoryview(buffer) as original, original.cast("B") as view:
            places = Places(self, lbas, blocks, len(view), self.most_blocks)
            rest = iter(range(places.count))

            async def worker() -> None:
                for index in rest:  # shared: each takes the next one
                    start = index * places.bytes
                    await step(places.lbas[index], view[start : start + places.bytes])

            workers = [asyncio.create_task(worker()) for _ in range(min(WINDOW, places.count))]
            try:
                await asyncio.gather(*workers)
            finally:
                for task in workers:
                    task.cancel()
                if workers:
                    await asyncio.wait(workers)
            return len(view)
