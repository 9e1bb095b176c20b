# SPDX-License-Identifier: BSD-3-Clause
"""Many Reads or Writes of one length in one call: the arguments, and a form without the engine."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING

from nvmf.initiator.base.arguments import bytes_of
from nvmf.initiator.base.bytewise import Bytewise
from nvmf.initiator.base.geometry import Geometry
from nvmf.initiator.base.pieces import pipeline

if TYPE_CHECKING:
    from typing_extensions import Buffer

WINDOW = 64
"""Maximum commands in flight."""


class Places:
    """The ranges of the commands of one call, checked against the namespace and the buffer."""

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
            ValueError: The arguments do not fit together.
            TypeError: An LBA is not an integer.
        """
        self.lbas = as_array(lbas)
        self.count = len(self.lbas)
        self.blocks = blocks
        if not 0 < blocks <= most:
            raise ValueError(f"one command moves 1 to {most} blocks here, not {blocks}")
        self.bytes = blocks * namespace.block_size
        """Bytes of each command."""
        if length != self.count * self.bytes:
            raise ValueError(
                f"{self.count} commands of {blocks} blocks of {namespace.block_size} bytes move "
                f"{self.count * self.bytes} bytes, and the buffer has {length}"
            )
        self.highest = max(self.lbas, default=0)


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


class OneByOne(Bytewise):
    """read_many() and write_many() with single commands, WINDOW of them at once."""

    @property
    @abstractmethod
    def most_blocks(self) -> int:
        """Blocks that one command transfers at most."""

    async def read_many(
        self,
        lbas: Iterable[int] | Buffer,
        into: Buffer,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Read blocks logical blocks from each LBA on: see nvmf.initiator.Namespace.read_many."""

        def step(lba: int, part: memoryview) -> Coroutine[object, object, int]:
            return self.readinto(lba, part, fua=fua)

        return await self._each(lbas, into, blocks, "Read", step)

    async def write_many(
        self,
        lbas: Iterable[int] | Buffer,
        data: Buffer,
        *,
        blocks: int = 1,
        fua: bool = False,
    ) -> int:
        """Write blocks logical blocks from each LBA on: see nvmf.initiator.Namespace.write_many."""
        return await self._each(
            lbas, data, blocks, "Write", lambda at, part: self.write(at, part, fua=fua)
        )

    async def _each(
        self,
        lbas: Iterable[int] | Buffer,
        buffer: Buffer,
        blocks: int,
        name: str,
        step: Callable[[int, memoryview], Coroutine[object, object, object]],
    ) -> int:
        with bytes_of(buffer) as view:
            places = Places(self, lbas, blocks, len(view), self.most_blocks)
            if places.count:
                await self._range(name, places.highest, blocks)

            async def one(index: int) -> None:
                start = index * places.bytes
                await step(places.lbas[index], view[start : start + places.bytes])

            await pipeline(range(places.count), one, min(WINDOW, places.count))
            return len(view)
