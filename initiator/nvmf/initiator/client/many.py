# SPDX-License-Identifier: BSD-3-Clause
"""Many Reads or Writes of one length in one call: the engine keeps a queue full of them.

Python runs before the first command and after the last, and for commands that fail: each of those
is run again by itself, with the retries and the errors that every command has. After a lost
connection, the commands that were not answered run again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nvmf.engine import HostBatch, HostMemory
from nvmf.initiator.base.arguments import bytes_of, writable
from nvmf.initiator.base.errors import QueueLost
from nvmf.initiator.base.many import Places
from nvmf.initiator.base.retry import Losses
from nvmf.spec import commands

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from nvmf.initiator.client.controller import Controller
    from nvmf.initiator.client.namespace import Namespace


class Many(Places):
    """The commands of one call."""

    def __init__(
        self,
        namespace: Namespace,
        lbas: Iterable[int] | Buffer,
        blocks: int,
        length: int,
        *,
        write: bool,
        fua: bool,
    ) -> None:
        super().__init__(namespace, lbas, blocks, length, namespace.most_blocks)
        self._namespace = namespace
        self._write = write
        self._fua = fua
        self.name = "Write" if write else "Read"

    async def run(self, controller: Controller, memory: HostMemory, offset: int) -> None:
        """Run every command to its end.

        Raises:
            NvmeError: A command failed; others may have been executed.
            ConnectionLost: The connection was lost and not made again.
        """
        if not self.count:
            return
        await self._namespace._range(self.name, self.highest, self.blocks)
        batch = HostBatch(
            self._sqe(0),
            self.lbas,
            memory,
            offset=offset,
            length=self.bytes,
            to_device=self._write,
        )
        within, losses = controller.options.io_timeout, Losses(self.name)
        while True:
            session = await controller.connection.live()
            self._namespace.require(self.name, self.highest, self.blocks)
            try:
                await session.pick().execute_batch(batch, within=within, what=self.name)
            except QueueLost as lost:
                controller.connection.recovery.command_lost(lost)
                losses.add(lost)
            left = batch.left()
            for index, status in left:
                if status is not None:
                    await self._run_one(index, memory, offset)
                    batch.succeeded(index)
            if all(status is not None for _, status in left):
                return

    async def _run_one(self, index: int, memory: HostMemory, offset: int) -> None:
        """Run a command through the pool: if the caller is cancelled, nothing uses its memory."""
        lba, start = self.lbas[index], offset + index * self.bytes
        with memoryview(memory) as whole, whole[start : start + self.bytes] as part:
            if self._write:
                await self._namespace.write(lba, bytes(part), fua=self._fua)
            else:
                part[:] = await self._namespace.read(lba, self.blocks, fua=self._fua)

    def _sqe(self, lba: int) -> bytes:
        build = commands.write if self._write else commands.read
        return build(self._namespace.nsid, lba, self.blocks, fua=self._fua)


async def move_many(
    namespace: Namespace,
    controller: Controller,
    lbas: Iterable[int] | Buffer,
    buffer: Buffer,
    blocks: int,
    *,
    write: bool,
    fua: bool,
) -> int:
    """Run read_many() or write_many() of a namespace, and return the length of the buffer."""
    registered = registered_memory(buffer)
    if registered:
        memory, base, length = registered
        many = Many(namespace, lbas, blocks, length, write=write, fua=fua)
        await many.run(controller, memory, base)
        return length
    with bytes_of(buffer) if write else writable(buffer) as view:
        many = Many(namespace, lbas, blocks, len(view), write=write, fua=fua)
        if not many.count:
            return 0
        memory = controller.register(bytearray(view) if view.readonly else view)
        try:
            await many.run(controller, memory, 0)
        finally:
            memory.close()
        return len(view)


def registered_memory(buffer: Buffer) -> tuple[HostMemory, int, int] | None:
    """Return (memory, offset, length in bytes) of a buffer that is registered, else None."""
    if isinstance(buffer, HostMemory):
        if not len(buffer):
            raise ValueError("the buffer cannot be used: the memory is closed")
        return buffer, 0, len(buffer)
    if isinstance(buffer, memoryview) and isinstance(buffer.obj, HostMemory):
        offset = buffer.obj.offset_of(buffer)
        return buffer.obj, offset, buffer.nbytes
    return None
