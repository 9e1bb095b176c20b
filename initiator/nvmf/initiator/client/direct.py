# SPDX-License-Identifier: BSD-3-Clause
"""Reads and Writes of one command that end with a call, for code that has many of them under way.

No coroutine, no task and no further turn of the event loop: a mirror sends each write to several
controllers, and what asyncio costs for one command would be paid for each of them.  Whatever is not
the usual case (a range to check again, a full queue, a status, a lost connection) is for the
ordinary methods, which retry and raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.client.leg import join
from nvmf.initiator.client.request import Call, Completion, Data
from nvmf.spec import commands
from nvmf.spec.commands import MAX_BLOCKS

if TYPE_CHECKING:
    from nvmf.engine import HostSpread
    from nvmf.initiator.client.buffers import Slot
    from nvmf.initiator.client.namespace import Namespace


class Direct:
    """The commands of one namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._controller = namespace._controller
        self._pool = namespace._pool

    def write(self, lba: int, data: bytes, fua: bool, then: Callable[[bool], None]) -> bool:
        """Send a Write at once, and call then(whether it succeeded) when it ends.

        False: nothing was sent, and then is not called.  If it is false, or is called with False,
        use Namespace.write(): it waits, retries, and raises what has to be raised.
        """
        length = len(data)
        blocks = self._whole(lba, length)
        slot = self._pool.take_now(length) if blocks else None
        if slot is None:
            return False
        slot.view[:length] = data

        def ended(completion: Completion | None) -> None:
            then(completion is not None and not completion.status)

        sqe = commands.write(self._namespace.nsid, lba, blocks, fua=fua)
        begun = self._begin(sqe, slot, length, "Write", ended)
        slot.drop()
        return begun

    def read(self, lba: int, blocks: int, then: Callable[[bytes | None], None]) -> bool:
        """Send a Read at once, and call then(the bytes) when it ends; as write()."""
        length = blocks * self._namespace.block_size
        blocks = self._whole(lba, length)
        slot = self._pool.take_now(length) if blocks else None
        if slot is None:
            return False

        def ended(completion: Completion | None) -> None:
            good = completion is not None and not completion.status
            data = bytes(slot.view[:length]) if good else None
            slot.drop()
            then(data)

        sqe = commands.read(self._namespace.nsid, lba, blocks)
        if self._begin(sqe, slot, length, "Read", ended):
            return True
        slot.drop()
        return False

    def join(self, spread: HostSpread, leg: int) -> bool:
        """Let a spread write to the namespace, on one of its queues, until that is closed.

        False: it cannot now, and nothing has changed.
        """
        session, unit = self._controller.connection.usable, self._namespace.block_size
        if session is None or not self.usable or not session.queues:
            return False
        if unit & (unit - 1) or not 512 <= unit <= LARGEST:
            return False
        try:
            memory = self._pool.device.register(spread.buffer)
        except OSError:  # there may be too little memory that can be locked
            return False
        nsid, shift = self._namespace.nsid, unit.bit_length() - 1
        if join(session.pick(), spread, leg, memory, nsid=nsid, shift=shift):
            return True
        memory.close()
        return False

    @property
    def usable(self) -> bool:
        """Whether the namespace is still the one that it was."""
        return not self._namespace.replaced

    @property
    def largest(self) -> int:
        """Bytes of one command."""
        session = self._controller.connection.usable
        return 0 if session is None else min(session.max_transfer, LARGEST)

    def _whole(self, lba: int, length: int) -> int:
        """Return the blocks of a transfer that one command does and nothing hinders, else 0."""
        namespace, session = self._namespace, self._controller.connection.usable
        if session is None or namespace.replaced:
            return 0
        blocks, rest = divmod(length, namespace.block_size)
        limit = min(session.max_transfer, LARGEST)
        fits = not rest and 0 < length <= limit and blocks <= MAX_BLOCKS
        return blocks if fits and 0 <= lba <= namespace.blocks - blocks else 0

    def _begin(
        self,
        sqe: bytes,
        slot: Slot,
        length: int,
        name: str,
        ended: Callable[[Completion | None], None],
    ) -> bool:
        session = self._controller.connection.usable
        if session is None:
            return False
        data = Data(slot.memory, slot.offset, length, name == "Write", slot)
        within = session.place.options.io_timeout
        return session.pick().begin(sqe, data, Call(ended), within=within, what=name)
