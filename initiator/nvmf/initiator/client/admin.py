# SPDX-License-Identifier: BSD-3-Clause
"""Admin commands of one session.

Each raises NvmeError if the controller answers with an error status, and QueueLost if the
connection ends.  Data goes through the pool of registered buffers.
"""

from __future__ import annotations

import logging

from nvmf.initiator.base.errors import NvmeError
from nvmf.initiator.base.limits import LARGEST
from nvmf.initiator.base.nsidlist import NsidList
from nvmf.initiator.client.buffers import Arenas
from nvmf.initiator.client.queue import Queue
from nvmf.initiator.client.request import Completion, Data
from nvmf.initiator.client.reserved import execute_reserved
from nvmf.spec import commands
from nvmf.spec.identify import IDENTIFY_SIZE
from nvmf.spec.opcodes import Cns, LogId
from nvmf.spec.properties import Property

log = logging.getLogger(__name__)


class Admin:
    """Runs admin commands.  timeout: seconds, of each command."""

    def __init__(self, queue: Queue, pool: Arenas, timeout: float) -> None:
        self._queue = queue
        self._pool = pool
        self._timeout = timeout

    async def run(
        self,
        sqe: bytes,
        name: str,
        data: Data | None = None,
        *,
        nsid: int | None = None,
        within: float | None = -1,
    ) -> Completion:
        """Run one command; raise NvmeError if its status is not success."""
        limit = self._timeout if within == -1 else within
        return self._checked(
            await self._queue.execute(sqe, data, within=limit, what=name), name, nsid
        )

    async def keep_alive(self, within: float) -> None:
        """Run Keep Alive, in the entry of the queue that is reserved for it."""
        name, sqe = "Keep Alive", commands.keep_alive()
        done = await execute_reserved(self._queue, sqe, within=within, what=name)
        self._checked(done, name)

    @staticmethod
    def _checked(done: Completion, name: str, nsid: int | None = None) -> Completion:
        if done.status:
            error = NvmeError.of(name, done.status, dw0=done.dw0, nsid=nsid)
            log.info("%s", error)
            raise error
        log.debug("%s succeeded", name)
        return done

    async def receive(
        self, sqe: bytes, name: str, length: int, *, nsid: int | None = None
    ) -> tuple[bytes, Completion]:
        """Run a command that returns length bytes (at most 256 KiB)."""
        if not length:
            return b"", await self.run(sqe, name, nsid=nsid)
        with await self._pool.take(length) as slot:
            slot.view[:length] = bytes(length)
            data = Data(slot.memory, slot.offset, length, False, slot)
            done = await self.run(sqe, name, data, nsid=nsid)
            return bytes(slot.view[:length]), done

    async def send(
        self, sqe: bytes, name: str, content: bytes, *, nsid: int | None = None
    ) -> Completion:
        """Run a command that takes content (at most 256 KiB)."""
        with await self._pool.take(len(content)) as slot:
            slot.view[: len(content)] = content
            data = Data(slot.memory, slot.offset, len(content), True, slot)
            return await self.run(sqe, name, data, nsid=nsid)

    async def property_get(self, offset: Property, size: int = 4) -> int:
        """Return the value of a property of 4 or 8 bytes."""
        sqe = commands.property_get(offset, size)
        return (await self.run(sqe, f"Property Get ({offset.name})")).value

    async def property_set(self, offset: Property, value: int, size: int = 4) -> None:
        """Set a property of 4 or 8 bytes."""
        await self.run(commands.property_set(offset, value, size), f"Property Set ({offset.name})")

    async def identify(
        self, cns: int, nsid: int = 0, *, csi: int = 0, cntid: int = 0, specific: int = 0
    ) -> bytes:
        """Return 4096 bytes of Identify data."""
        sqe = commands.identify(cns, nsid, csi=csi, cntid=cntid, specific=specific)
        try:
            name = f"Identify ({Cns(cns).name.replace('_', ' ').lower()})"
        except ValueError:
            name = f"Identify (CNS {cns:02X}h)"
        data, _ = await self.receive(sqe, name, IDENTIFY_SIZE, nsid=nsid or None)
        return data

    async def active_namespaces(self) -> list[int]:
        """Return the NSIDs of the active namespaces, ascending.

        Raise ConnectionLost if the list has no end (NsidList).
        """
        listed = NsidList()
        while not listed.complete:
            listed.add(await self.identify(Cns.ACTIVE_NAMESPACES, listed.after))
        return listed.nsids

    async def log_page(
        self,
        lid: int,
        length: int,
        *,
        nsid: int = commands.ALL_NAMESPACES,
        offset: int = 0,
        rae: bool = False,
        lsp: int = 0,
        chunk: int = 65536,
    ) -> bytes:
        """Return length bytes of a log page from offset on, in pieces of at most chunk bytes."""
        try:
            name = f"Get Log Page ({LogId(lid).name.replace('_', ' ').lower()})"
        except ValueError:
            name = f"Get Log Page (LID {lid:02X}h)"
        parts: list[bytes] = []
        end = offset + length
        while offset < end:
            piece = min(chunk, LARGEST, end - offset)
            sqe = commands.get_log_page(lid, piece, nsid=nsid, offset=offset, rae=rae, lsp=lsp)
            data, _ = await self.receive(sqe, name, piece)
            parts.append(data)
            offset += piece
        return b"".join(parts)

    async def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0, cdw11: int = 0) -> int:
        """Return dword 0 of a feature's value."""
        sqe = commands.get_features(fid, nsid=nsid, sel=sel, cdw11=cdw11)
        return (await self.run(sqe, f"Get Features ({fid:02X}h)", nsid=nsid or None)).dw0

    async def feature_data(
        self, fid: int, size: int, *, nsid: int = 0, sel: int = 0, cdw11: int = 0
    ) -> tuple[bytes, int]:
        """Return the data structure of a feature that has one, and dword 0."""
        sqe = commands.get_features(fid, nsid=nsid, sel=sel, cdw11=cdw11)
        data, done = await self.receive(sqe, f"Get Features ({fid:02X}h)", size, nsid=nsid or None)
        return data, done.dw0

    async def set_features(
        self,
        fid: int,
        value: int,
        *,
        nsid: int = 0,
        save: bool = False,
        cdw12: int = 0,
        data: bytes = b"",
    ) -> int:
        """Set a feature, with the data structure that some have; return dword 0 of the completion.

        save: the controller keeps the value across resets.
        """
        sqe = commands.set_features(fid, value, nsid=nsid, save=save, cdw12=cdw12)
        name = f"Set Features ({fid:02X}h)"
        if data:
            return (await self.send(sqe, name, data, nsid=nsid or None)).dw0
        return (await self.run(sqe, name, nsid=nsid or None)).dw0
