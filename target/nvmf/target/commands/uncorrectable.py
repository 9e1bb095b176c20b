# SPDX-License-Identifier: BSD-3-Clause
"""Write Uncorrectable (NVM 1.0, 3.2.7), and the writes that make its blocks readable again.

The engine refuses reads of marked blocks.  It executes commands that write marked blocks, and then
passes them here: they complete when the marks of their blocks are removed, and this is stored.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import replace

from nvmf.spec.opcodes import IoOpcode
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.later import answer
from nvmf.target.command.request import Completion, Request, expect_length
from nvmf.target.commands.handler import Handler
from nvmf.target.commands.identify import find_namespace
from nvmf.target.lasting.lasting import Lasting, Range, with_range, without_ranges
from nvmf.target.model.controller import Controller

MOST_RANGES = 4096
"""Maximum ranges of a namespace; more are refused."""
MOST_PIECES = 4 * MOST_RANGES
"""Maximum ranges that remain after a write divides some: it fails otherwise, and its marks stay."""
_DSM_RANGE = struct.Struct("<IIQ")


def _range(sqe: Sqe) -> Range:
    return sqe.cdw10 | sqe.cdw11 << 32, (sqe.cdw12 & 0xFFFF) + 1


def write_uncorrectable(controller: Controller, request: Request) -> Completion | None:
    """Write Uncorrectable: reads of these blocks fail until they are written."""
    namespace = find_namespace(controller, request.sqe.nsid)
    expect_length(request, 0)
    nsid, keeper = namespace.nsid, controller.subsystem.lasting
    reservations = controller.subsystem.reservations

    def check(refused: int) -> None:
        if refused:
            raise StatusError.from_wire(refused, f"namespace {nsid} refuses writes", io=True)

    check(controller.gates.get(nsid).write or keeper.gate(nsid).write)
    lba, blocks = _range(request.sqe)
    if lba + blocks > namespace.blocks:
        raise StatusError(Status.LBA_OUT_OF_RANGE, f"block {lba} and {blocks - 1} more", io=True)
    if namespace.store.read_only:
        raise StatusError(Status.NAMESPACE_WRITE_PROTECTED, "the namespace is read-only", io=True)

    def mark(now: Lasting) -> Lasting:
        # A slow disk delays its turn; the gates of a controller that is gone are not kept.
        check(reservations.gate(nsid, controller.hostid).write)
        check(controller.gates.get(nsid).write)
        invalid = with_range(now.invalid, lba, blocks)
        if len(invalid) > MOST_RANGES:
            raise StatusError(
                Status.INTERNAL_ERROR,
                f"namespace {nsid} already has {MOST_RANGES} ranges of invalid blocks",
            )
        return replace(now, invalid=invalid)

    return answer(controller, request, lambda done: keeper.commit(nsid, mark, done))


def _written(
    controller: Controller, request: Request, ranges: Collection[Range]
) -> Completion | None:
    """Unmark ranges; Invalid Namespace or Format if the namespace was removed meanwhile."""

    def unmark(now: Lasting) -> Lasting:
        invalid = without_ranges(now.invalid, ranges)
        if len(invalid) > max(MOST_PIECES, len(now.invalid)):
            raise StatusError(
                Status.INTERNAL_ERROR,
                f"namespace {nsid} would have more than {MOST_PIECES} ranges of invalid blocks",
            )
        return replace(now, invalid=invalid)

    keeper, nsid = controller.subsystem.lasting, request.sqe.nsid
    return answer(controller, request, lambda done: keeper.commit(nsid, unmark, done))


def written(controller: Controller, request: Request) -> Completion | None:
    """Complete a Write or Write Zeroes (or Copy, as a Write) that the engine has executed."""
    return _written(controller, request, [_range(request.sqe)])


def deallocated(controller: Controller, request: Request) -> Completion | None:
    """Complete a deallocation that the engine has executed: its blocks read as zeroes (DLFEAT)."""
    length = ((request.sqe.cdw10 & 0xFF) + 1) * _DSM_RANGE.size
    ranges = _DSM_RANGE.iter_unpack(request.data[:length])
    return _written(controller, request, [(lba, blocks) for _, blocks, lba in ranges])


IO_HANDLERS: dict[int, Handler] = {
    IoOpcode.WRITE_UNCORRECTABLE: write_uncorrectable,
    IoOpcode.WRITE: written,
    IoOpcode.WRITE_ZEROES: written,
    IoOpcode.DATASET_MANAGEMENT: deallocated,
}
"""Commands of I/O queues that the engine passes on."""
