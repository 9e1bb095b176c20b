# SPDX-License-Identifier: BSD-3-Clause
"""Copy (NVM 1.0, 3.2.2): source ranges, split into as many commands as the controller needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from nvmf.initiator.base.pieces import pipeline
from nvmf.spec import commands
from nvmf.spec.commands import MAX_COPY_RANGES
from nvmf.spec.identify import IdentifyNamespace, Oncs

NAME = "Copy"


class _Namespace(Protocol):
    @property
    def nsid(self) -> int: ...
    @property
    def info(self) -> IdentifyNamespace: ...
    async def _range(self, name: str, lba: int, blocks: int) -> tuple[int, int]: ...
    async def send(self, sqe: bytes, name: str, content: bytes) -> None: ...


class CopyPiece(NamedTuple):
    """The source ranges and the destination of one command."""

    sdlba: int
    ranges: list[tuple[int, int]]
    """(first block, blocks) of each source."""


def split_copy(
    info: IdentifyNamespace, lba: int, ranges: Iterable[tuple[int, int]]
) -> Iterator[CopyPiece]:
    """Yield pieces within MSSRL, MCL and MSRC, in order; empty ranges are left out."""
    longest, most = max(info.mssrl, 1), max(info.mcl, 1)
    count = min(info.msrc + 1, MAX_COPY_RANGES)
    group: list[tuple[int, int]] = []
    total = 0
    for start, blocks in ranges:
        while blocks:
            if total == most or len(group) == count:
                yield CopyPiece(lba, group)
                lba, group, total = lba + total, [], 0
            now = min(blocks, longest, most - total)
            group.append((start, now))
            start, blocks, total = start + now, blocks - now, total + now
    if group:
        yield CopyPiece(lba, group)


async def copy_blocks(
    namespace: _Namespace, oncs: int, lba: int, ranges: Iterable[tuple[int, int]], fua: bool
) -> None:
    """Copy ranges to lba; see Namespace.copy()."""
    if not oncs & Oncs.COPY:
        raise ValueError(f"the controller of namespace {namespace.nsid} does not support Copy")
    found = [await namespace._range(NAME, start, blocks) for start, blocks in ranges]
    total = sum(blocks for _, blocks in found)
    lba, total = await namespace._range(NAME, lba, total)
    for start, blocks in found:
        if blocks and start < lba + total and lba < start + blocks:
            raise ValueError(
                f"{blocks} blocks from {start} overlap the destination, {total} blocks from {lba}"
            )

    async def step(piece: CopyPiece) -> None:
        sqe = commands.copy(namespace.nsid, piece.sdlba, len(piece.ranges), fua=fua)
        await namespace.send(sqe, NAME, commands.copy_ranges(piece.ranges))

    await pipeline(split_copy(namespace.info, lba, found), step)
