# SPDX-License-Identifier: BSD-3-Clause
"""A controller and its namespaces, whose methods run on the loop of another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nvmf.initiator.base.interface import AnyController, AnyMemory, AnyNamespace
from nvmf.initiator.base.state import State
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller as AsyncController
from nvmf.initiator.sync.blocking import BlockingReservations, Loop
from nvmf.spec.identify import IdentifyController, IdentifyNamespace, NamespaceIds

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Namespace:
    """An active namespace; nvmf.initiator.client.namespace describes its methods."""

    def __init__(self, loop: Loop, namespace: AnyNamespace) -> None:
        self._loop = loop
        self._namespace = namespace

    def __repr__(self) -> str:
        return repr(self._namespace)

    @property
    def nsid(self) -> int:
        """Namespace identifier."""
        return self._namespace.nsid

    @property
    def info(self) -> IdentifyNamespace:
        """Identify Namespace, as it was last read."""
        return self._namespace.info

    @property
    def ids(self) -> NamespaceIds:
        """EUI64, NGUID, UUID and command set, as far as the controller gives them."""
        return self._namespace.ids

    @property
    def block_size(self) -> int:
        """Bytes of a logical block."""
        return self._namespace.block_size

    @property
    def blocks(self) -> int:
        """Logical blocks."""
        return self._namespace.blocks

    @property
    def size(self) -> int:
        """Bytes."""
        return self._namespace.size

    def read(self, lba: int, blocks: int, *, fua: bool = False) -> bytes:
        """The bytes of blocks logical blocks from lba on."""
        return self._loop.call(self._namespace.read(lba, blocks, fua=fua))

    def readinto(self, lba: int, buffer: Buffer, *, fua: bool = False) -> int:
        """Fill a writable buffer of whole blocks from lba on; its length in bytes."""
        return self._loop.call(self._namespace.readinto(lba, buffer, fua=fua))

    def write(self, lba: int, data: Buffer, *, fua: bool = False) -> None:
        """Write whole blocks of data from lba on."""
        self._loop.call(self._namespace.write(lba, data, fua=fua))

    def read_many(
        self, lbas: Iterable[int] | Buffer, into: Buffer, *, blocks: int = 1, fua: bool = False
    ) -> int:
        """Read blocks logical blocks from each LBA on, into a writable buffer."""
        return self._loop.call(self._namespace.read_many(lbas, into, blocks=blocks, fua=fua))

    def write_many(
        self, lbas: Iterable[int] | Buffer, data: Buffer, *, blocks: int = 1, fua: bool = False
    ) -> int:
        """Write blocks logical blocks from each LBA on, out of data."""
        return self._loop.call(self._namespace.write_many(lbas, data, blocks=blocks, fua=fua))

    def compare(self, lba: int, data: Buffer) -> None:
        """Compare blocks with data: NvmeError (Compare Failure) where they differ."""
        self._loop.call(self._namespace.compare(lba, data))

    def compare_and_write(
        self, lba: int, expected: Buffer, new: Buffer, *, fua: bool = False
    ) -> None:
        """Write new where the blocks are as expected, as one: NvmeError where they differ.

        OutcomeUnknown where the connection ends under it.  ValueError where the controller has no
        such command, and with the kernel's backend.
        """
        self._loop.call(self._namespace.compare_and_write(lba, expected, new, fua=fua))

    def flush(self) -> None:
        """Make stable what was completed before."""
        self._loop.call(self._namespace.flush())

    def write_zeroes(
        self, lba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
    ) -> None:
        """Set blocks to zeroes; deallocate: the controller may free them for it."""
        work = self._namespace.write_zeroes(lba, blocks, deallocate=deallocate, fua=fua)
        self._loop.call(work)

    def write_uncorrectable(self, lba: int, blocks: int) -> None:
        """Mark blocks as invalid: reads of them fail until they are written again."""
        self._loop.call(self._namespace.write_uncorrectable(lba, blocks))

    def verify(self, lba: int, blocks: int) -> None:
        """Have the controller read blocks without sending them."""
        self._loop.call(self._namespace.verify(lba, blocks))

    def deallocate(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Tell that the data of (first block, blocks) ranges is needed no more."""
        self._loop.call(self._namespace.deallocate(ranges))

    @property
    def reservations(self) -> BlockingReservations:
        """What is reserved of the namespace, and for whom."""
        return BlockingReservations(self._loop, self._namespace.reservations)


class Controller:
    """A connected controller; make it with connect(), and close() it."""

    def __init__(self, loop: Loop, controller: AnyController) -> None:
        self._loop = loop
        self._controller = controller
        self._lock = threading.Lock()
        """Of _closing."""
        self._closing = False
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def where(self) -> TransportId:
        """Its address and NQN."""
        return self._controller.where

    @property
    def state(self) -> State:
        """Live, reconnecting, lost or closed."""
        return self._controller.state

    @property
    def identify(self) -> IdentifyController:
        """Identify Controller, as it was at the last connection."""
        return self._controller.identify

    @property
    def max_transfer(self) -> int:
        """Bytes of one command at most; longer transfers are split."""
        return self._controller.max_transfer

    @property
    def namespaces(self) -> list[Namespace]:
        """The active namespaces, by NSID."""
        found = self._loop.get(lambda: self._controller.namespaces)
        return [Namespace(self._loop, namespace) for namespace in found]

    def namespace(self, nsid: int) -> Namespace:
        """One namespace; NvmeError where it is not active."""
        return Namespace(self._loop, self._loop.get(lambda: self._controller.namespace(nsid)))

    def alloc(self, length: int) -> AnyMemory:
        """Registered memory of length bytes, for transfers without a copy; close() it."""
        return self._controller.alloc(length)

    def register(self, buffer: Buffer) -> AnyMemory:
        """Register a writable buffer, for transfers without a copy."""
        return self._controller.register(buffer)

    def refresh(self) -> None:
        """Read the list of namespaces and their sizes anew."""
        self._loop.call(self._controller.refresh())

    def reauthenticate(self) -> None:
        """Authenticate every queue anew; AuthenticationError where it fails.

        ValueError with the kernel's backend, which does that by its sysfs.
        """
        if not isinstance(self._controller, AsyncController):
            raise ValueError(
                "the kernel authenticates again when a key is written to dhchap_secret of the "
                f"controller, in {self._controller.device}'s folder of /sys/class/nvme"
            )
        self._loop.call(self._controller.reauthenticate())

    def identify_data(self, cns: int, nsid: int = 0, *, csi: int = 0) -> bytes:
        """4096 bytes of Identify data."""
        return self._loop.call(self._controller.identify_data(cns, nsid, csi=csi))

    def log_page(self, lid: int, length: int, *, offset: int = 0, rae: bool = True) -> bytes:
        """length bytes of a log page."""
        return self._loop.call(self._controller.log_page(lid, length, offset=offset, rae=rae))

    def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0) -> int:
        """Dword 0 of a feature's value."""
        return self._loop.call(self._controller.get_features(fid, nsid=nsid, sel=sel))

    def set_features(self, fid: int, value: int, *, nsid: int = 0) -> int:
        """Set a feature (dword 11); dword 0 of the completion."""
        return self._loop.call(self._controller.set_features(fid, value, nsid=nsid))

    def close(self) -> None:
        """Shut the controller down, disconnect, and end the thread.

        Any number of threads may call it, any number of times; each returns when it is closed.
        Calls that other threads have in progress end with ConnectionLost.
        """
        with self._lock:
            first, self._closing = not self._closing, True
        if not first:
            self._closed.wait()
            return
        try:
            self._loop.call(self._close())
        finally:
            try:
                self._loop.close()
            finally:
                self._closed.set()

    async def _close(self) -> None:
        if self._controller.state is not State.CLOSED:
            await self._controller.close()
