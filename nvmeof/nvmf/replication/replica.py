# SPDX-License-Identifier: BSD-3-Clause
"""Replicas: what a Mirror or a Log writes to.

Every one keeps these promises, or the proofs do not hold:

- write() returns when the data is persistent; flush() makes all persistent that has reached it.
- After fence() no write of an earlier writer, or of an earlier connection of this one, lands.
- A block is written whole or not at all when the power fails (Mirror; Log finds torn frames).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable
from uuid import uuid4

from nvmf.engine import HostSpread
from nvmf.initiator import (
    AnyController,
    AnyNamespace,
    ConnectOptions,
    Namespace,
    NvmeError,
    TransportId,
    connect,
)
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.client.direct import Direct
from nvmf.replication.machine import Fenced, ReplicaError
from nvmf.replication.registrants import unregister
from nvmf.spec.reservations import ReservationType
from nvmf.spec.status import Status


class Replica(Protocol):
    """A range of persistent bytes, with one writer."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def size(self) -> int:
        """Bytes; known after fence()."""

    @property
    def unit(self) -> int:
        """Bytes of a block: offsets and lengths are multiples of it; known after fence()."""

    async def fence(self) -> None:
        """Open it, or open it again, and become its only writer."""

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes."""

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes persistently."""

    async def flush(self) -> None:
        """Make persistent all that has reached it."""

    async def close(self) -> None:
        """End the connection."""


@runtime_checkable
class QuickReplica(Replica, Protocol):
    """A replica that can begin reads and writes without a coroutine: what is under way costs less.

    Each returns False, and calls nothing, if it cannot begin now.  If it is false, or the call says
    that it failed, read() or write() follows with the same arguments, and gives the reason.
    """

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        """Begin a write; then(True) is called when the bytes are persistent."""

    def begin_read(self, offset: int, length: int, then: Callable[[bytes | None], None]) -> bool:
        """Begin a read; then is called with the bytes."""


@runtime_checkable
class CarefulReplica(Replica, Protocol):
    """A replica that a writer can open again without fencing one that has taken over."""

    async def fence_again(self) -> None:
        """Do as fence() does, but raise Fenced, and change nothing, if a writer other than this
        object has the replica.
        """


class NamespaceReplica:
    """A namespace of a target: writes have FUA set, and a reservation keeps other writers out."""

    def __init__(
        self,
        url: str,
        nsid: int = 1,
        *,
        reserve: bool = True,
        options: ConnectOptions | None = None,
    ) -> None:
        """Create the object; fence() connects.

        Args:
            url: URL of the subsystem.
            nsid: The namespace.
            reserve: Fence by a reservation (Exclusive Access, preempt and abort). Without it the
                caller must ensure that there is no second writer.
            options: Options of the connection; those of the URL take precedence.
        """
        self._options = options
        self._url = url
        self._nsid = nsid
        self._reserve = reserve
        self._controller: AnyController | None = None
        self._disk: AnyNamespace | None = None
        self._direct: Direct | None = None
        """Direct access to the namespace, if the client of this process has connected it."""
        self._key = 0
        self._keys: set[int] = set()
        """All that this object has had: a reservation with one of them is of its own earlier
        connection."""
        self.identity = ""
        """Identifiers of the namespace; known after fence()."""
        self.size = self.unit = 0

    @property
    def name(self) -> str:
        """Its address and namespace."""
        return f"namespace {self._nsid} of {self._url}"

    async def fence(self) -> None:
        """Connect again, and preempt the holder of a reservation of the namespace.

        Each connection is a separate host for the target, with a random Host Identifier, so that
        this one's earlier connection is fenced like those of others.
        """
        await self._reopen(self._random(), preempt=True)

    async def fence_as(self, hostid: str | None, *, preempt: bool = True) -> None:
        """As fence(), or fence_again() without preempt, with a given Host Identifier; None: that of
        this machine.
        """
        await self._reopen(hostid, preempt=preempt)

    async def fence_again(self) -> None:
        """Connect again, and preempt an earlier connection of this object, but nobody else."""
        await self._reopen(self._random(), preempt=False)

    def _random(self) -> str | None:
        return str(uuid4()) if self._reserve else None

    async def _reopen(self, hostid: str | None, *, preempt: bool) -> None:
        await self.close()
        self._controller = await connect(
            self._url, self._options, ctrl_loss_tmo=0, hostid=hostid, hostnqn=self.hostnqn()
        )
        self._disk = disk = self._controller.namespace(self._nsid)
        self.size, self.unit = disk.size, disk.block_size
        self.identity = repr(disk.ids)
        if self._reserve:
            await self._take(disk, preempt)
        self._direct = _direct_of(disk)

    def hostnqn(self) -> str | None:
        """Return the NQN of this host, which targets list and have keys for.

        Without it, the NQN would follow from the random Host Identifier. For the kernel only one
        that was given: it refuses an NQN with a second identifier.
        """
        known = (self._options or ConnectOptions()).with_options(TransportId.of(self._url).options)
        if known.backend == "kernel":
            return known.hostnqn
        return host_identity(known.hostnqn, known.hostid).nqn

    async def _take(self, disk: AnyNamespace, preempt: bool) -> None:
        """Reserve the namespace.

        A holder that comes after the report is not preempted: its key is a different one.
        """
        kind = ReservationType.EXCLUSIVE_ACCESS
        status = await disk.reservations.report()
        holders = {host.rkey for host in status.registrants if host.rcsts & 1}
        if not preempt and holders - self._keys:
            await self.close()
            raise Fenced(f"{self.name} is reserved by a different writer")
        key = self._key = int.from_bytes(os.urandom(8), "little") | 1
        self._keys.add(key)
        await disk.reservations.register(key, ignore_existing=True)
        others = {host.rkey for host in status.registrants} - holders
        await unregister(disk.reservations, key, others & self._keys)  # or they become many
        for other in holders:
            await disk.reservations.preempt(key, kind, other, abort=True)
        if not holders:
            await disk.reservations.acquire(key, kind)
        if preempt:
            # Only the holder does this: it cannot depose a writer that has preempted since then,
            # because that has ended the registration of this one.
            await unregister(disk.reservations, key, others - self._keys)

    async def holds(self) -> bool:
        """Return whether the reservation is its own, and not that of a different writer."""
        status = await self._open().reservations.report()
        return any(host.rcsts & 1 and host.rkey == self._key for host in status.registrants)

    async def give_up(self) -> None:
        """End its reservation and registrations, which stay when a connection ends."""
        if self._disk is not None and self._reserve:
            reservations = self._disk.reservations
            found = {host.rkey for host in (await reservations.report()).registrants}
            await unregister(reservations, self._key, found & self._keys - {self._key})
            await reservations.unregister(self._key)

    async def read(self, offset: int, length: int) -> bytes:
        """Return whole blocks."""
        disk = self._open()
        with self._fencing():
            return await disk.read(offset // self.unit, length // self.unit)

    async def write(self, offset: int, data: bytes) -> None:
        """Write whole blocks with FUA."""
        disk = self._open()
        if offset % self.unit:
            raise ReplicaError(f"offset {offset} is not a multiple of {self.unit}")
        with self._fencing():
            await disk.write(offset // self.unit, data, fua=True)

    async def write_many(self, offsets: Sequence[int], data: bytes) -> None:
        """Write consecutive parts of data, of one length, to offsets: whole blocks with FUA."""
        disk, unit = self._open(), self.unit
        blocks = len(data) // len(offsets) // unit
        with self._fencing():
            await disk.write_many([at // unit for at in offsets], data, blocks=blocks, fua=True)

    def begin_write(self, offset: int, data: bytes, then: Callable[[bool], None]) -> bool:
        """Send a Write with FUA, if it fits into one command."""
        disk, unit = self._direct, self.unit
        if disk is None or offset % unit:
            return False
        return disk.write(offset // unit, data, True, then)

    def begin_read(self, offset: int, length: int, then: Callable[[bytes | None], None]) -> bool:
        """Send a Read, if it fits into one command."""
        disk, unit = self._direct, self.unit
        if disk is None or offset % unit or length % unit:
            return False
        return disk.read(offset // unit, length // unit, then)

    def join(self, spread: HostSpread, leg: int) -> int:
        """Become a leg of a spread of the engine, until the connection ends; see SpreadReplica."""
        disk = self._direct
        return disk.largest if disk is not None and disk.join(spread, leg) else 0

    def joined(self) -> bool:
        """Whether it is still the namespace that was connected to."""
        return self._direct is not None and self._direct.usable

    async def flush(self) -> None:
        """Run Flush."""
        with self._fencing():
            await self._open().flush()

    async def close(self) -> None:
        """End the connection: what was under way is aborted."""
        controller, self._controller, self._disk = self._controller, None, None
        self._direct = None
        if controller is not None:
            await controller.close()

    def _open(self) -> AnyNamespace:
        if self._disk is None:
            raise ReplicaError(f"{self.name} is not connected")
        return self._disk

    @contextlib.contextmanager
    def _fencing(self) -> Iterator[None]:
        try:
            yield
        except NvmeError as error:
            if error.status == Status.RESERVATION_CONFLICT:
                raise Fenced(f"{self.name} is reserved by a different writer") from error
            raise


def _direct_of(disk: AnyNamespace) -> Direct | None:
    return Direct(disk) if isinstance(disk, Namespace) else None
