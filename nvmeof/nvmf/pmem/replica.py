# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory as a replica: a Log or a Mirror that is written by a method of persistence."""

from __future__ import annotations

from uuid import uuid4

from nvmf.initiator import ConnectOptions, NvmeError, TransportId
from nvmf.initiator.client.bringup import device_kinds
from nvmf.pmem.remote import MemoryMethod, RemoteMemory
from nvmf.replication import Fenced, NamespaceReplica, ReplicaError


class RemoteMemoryReplica:
    """A namespace that is exported to this host as memory: written by RDMA, fenced by NVMe.

    The reservation of the namespace keeps other hosts out of its memory as well: when a new writer
    has it, the target has ended the access of the earlier one.  A unit is not whole after a power
    failure, which a Log finds; a Mirror needs replicas whose blocks are.
    """

    def __init__(
        self,
        url: str,
        nsid: int = 1,
        *,
        method: MemoryMethod = "write-send",
        force: bool = False,
        unit: int = 64,
        options: ConnectOptions | None = None,
    ) -> None:
        """Create the object; fence() connects.

        Args:
            url: URL of the subsystem.
            nsid: The namespace.
            method: How writes become persistent.
            force: Use the method although the target does not confirm what it assumes.
            unit: Bytes of which offsets and lengths are multiples: 64 or more for a Log.
            options: Options of the connections; those of the URL take precedence.
        """
        self._place = TransportId.of(url)
        self._options = (options or ConnectOptions()).with_options(self._place.options)
        self._nsid = nsid
        self._method: MemoryMethod = method
        self._force = force
        self._nvme = NamespaceReplica(url, nsid, options=options)
        self._memory: RemoteMemory | None = None
        self.unit = unit
        self.size = 0

    @property
    def name(self) -> str:
        """Its address and namespace."""
        return f"memory of {self._nvme.name}"

    @property
    def unmet(self) -> tuple[str, ...]:
        """Assumptions of the method that the target does not confirm."""
        return self._memory.unmet if self._memory is not None else ()

    async def fence(self) -> None:
        """Connect again, and preempt the holder of a reservation of the namespace."""
        await self._reopen(preempt=True)

    async def fence_again(self) -> None:
        """Connect again, and preempt an earlier connection of this object, but nobody else."""
        await self._reopen(preempt=False)

    async def _reopen(self, *, preempt: bool) -> None:
        await self.close()
        hostid = str(uuid4())
        await self._nvme.fence_as(hostid, preempt=preempt)
        secret, ctrl_secret = self._options.keys()
        self._memory = memory = await RemoteMemory.connect(
            self._place,
            self._nsid,
            method=self._method,
            force=self._force,
            hostnqn=self._nvme.hostnqn(),
            hostid=hostid,
            host_traddr=self._options.host_traddr,
            device=device_kinds(self._options.device)[0],
            dhchap_secret=secret,
            dhchap_ctrl_secret=ctrl_secret,
        )
        self.size = memory.size // self.unit * self.unit

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""
        try:
            return await self._open().read(offset, length)
        except OSError as error:
            raise await self._why(error) from error

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes with the method."""
        try:
            await self._open().write(offset, data)
        except OSError as error:
            raise await self._why(error) from error

    @property
    def tail_word(self) -> str:
        """How it writes a log's tail word: see AppendReplica."""
        return "atomic-write" if self._memory is not None and self._memory.tails else ""

    async def append(self, offset: int, data: bytes, at: int, word: bytes) -> None:
        """Write bytes with the method, and a tail word behind them: see AppendReplica."""
        try:
            await self._open().append(offset, data, at, word)
        except OSError as error:
            raise await self._why(error) from error

    async def flush(self) -> None:
        """Make persistent all that has reached it, from any writer."""
        try:
            await self._open().persist()
        except OSError as error:
            raise await self._why(error) from error

    async def give_up(self) -> None:
        """End its reservation, which stays when a connection ends."""
        await self._nvme.give_up()

    async def close(self) -> None:
        """End the connections."""
        memory, self._memory = self._memory, None
        if memory is not None:
            await memory.close()
        await self._nvme.close()

    def _open(self) -> RemoteMemory:
        if self._memory is None:
            raise ReplicaError(f"{self.name} is not connected")
        return self._memory

    async def _why(self, error: OSError) -> ReplicaError | Fenced:
        """Return the error of an operation: a lost connection may be that of a fenced writer."""
        why = error.strerror or str(error)
        try:
            held = await self._nvme.holds()
        except (OSError, NvmeError, RuntimeError) as other:
            return ReplicaError(f"{why} ({other})")
        return (
            ReplicaError(why) if held else Fenced(f"{self.name} is reserved by a different writer")
        )
