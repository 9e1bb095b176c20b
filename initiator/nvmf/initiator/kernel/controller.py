# SPDX-License-Identifier: BSD-3-Clause
"""A controller that the kernel's nvme-rdma has connected, with the client's methods.

The kernel keeps it alive, reconnects, and follows its namespaces. This module has threads for the
calls that block, and a task that reads the list of block devices again if udev reports a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from nvmf.initiator.base.arguments import whole
from nvmf.initiator.base.background import begin
from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.limits import MAX_TRANSFER
from nvmf.initiator.base.memory import BorrowedMemory, KernelMemory
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.state import State
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.kernel import host, sysfs
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.kernel.ioctl import Device
from nvmf.initiator.kernel.namespace import KernelNamespace
from nvmf.initiator.kernel.options import from_client
from nvmf.initiator.kernel.sysfs import ControllerInfo, NamespaceInfo
from nvmf.initiator.kernel.system import System
from nvmf.rdma.hotplug import BLOCK, Hotplug, HotplugError
from nvmf.spec import commands
from nvmf.spec.identify import (
    IDENTIFY_SIZE,
    IdentifyController,
    IdentifyNamespace,
    NamespaceIds,
    decode_descriptors,
)
from nvmf.spec.opcodes import Cns
from nvmf.spec.properties import Version
from nvmf.spec.status import DNR, Status

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger(__name__)
T = TypeVar("T")
THREADS = 32
"""Commands in flight at once."""
_CHUNK = 4096
"""Bytes of one Get Log Page."""


class KernelController:
    """A connected controller: make it with connect(..., backend="kernel")."""

    def __init__(
        self,
        where: TransportId,
        options: ConnectOptions,
        info: ControllerInfo,
        system: System,
    ) -> None:
        self.where = where
        """Address and NQN of the controller."""
        self.options = options
        """The options of the connection."""
        self.name = info.name
        """Name of the controller's device: nvme0."""
        self._system = system
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="nvmf-kernel")
        self._admin = Device(info.path)
        self._identify = IdentifyController()
        self._namespaces: dict[int, KernelNamespace] = {}
        self._closing: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        where = f"{self.where.subnqn} at {self.where.endpoint}"
        return f"<KernelController {self.name} {where}, {self.state.value}>"

    @classmethod
    async def connect(
        cls, where: TransportId, options: ConnectOptions, system: System | None = None
    ) -> KernelController:
        """Connect; raise KernelError, or ValueError for options that the kernel does not have."""
        system = system or System()
        address = await asyncio.to_thread(host.resolve, where.traddr, where.trsvcid)
        wanted = from_client(where, options, address)
        abandoned = threading.Event()
        connecting = asyncio.ensure_future(
            asyncio.to_thread(host.connect, wanted, system, abandoned=abandoned)
        )
        try:
            found = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            abandoned.set()
            await asyncio.wait({connecting})
            if not connecting.cancelled() and connecting.exception() is None:
                await asyncio.to_thread(sysfs.delete, connecting.result().controller)
            raise
        controller = None
        try:
            controller = cls(where, options, found.controller, system)
            await controller._load()
        except BaseException:
            if controller:
                await controller.close()
            else:
                await asyncio.to_thread(sysfs.delete, found.controller)
            raise
        controller._follower = begin(
            controller._follow(),
            f"the following of {controller.name}'s namespaces",
            lambda why: None,
        )
        return controller

    # ---- what it is ----

    @property
    def state(self) -> State:
        """Live, reconnecting, lost or closed."""
        if self._closing is not None:
            return State.CLOSED
        word = sysfs.state(self.name, self._system)
        if word is None or word in sysfs.GOING:
            return State.LOST
        return State.LIVE if word == sysfs.LIVE else State.RECONNECTING

    @property
    def info(self) -> ControllerInfo | None:
        """Return its state in sysfs; None if it is gone."""
        return sysfs.controller(self.name, self._system)

    @property
    def device(self) -> str:
        """The kind of device: kernel."""
        return "kernel"

    @property
    def identify(self) -> IdentifyController:
        """Identify Controller, as it was last read."""
        return self._identify

    @property
    def version(self) -> Version:
        """NVMe version (VER)."""
        return Version.decode(self._identify.ver)

    @property
    def queues(self) -> int:
        """I/O queues that the controller granted."""
        info = self.info
        return max((info.queue_count or 1) - 1, 0) if info else 0

    @property
    def max_transfer(self) -> int:
        """Maximum bytes of one command; the kernel splits longer transfers."""
        return self._identify.max_transfer_bytes(0) or MAX_TRANSFER

    @property
    def namespaces(self) -> list[KernelNamespace]:
        """The active namespaces, by NSID."""
        return [self._namespaces[nsid] for nsid in sorted(self._namespaces)]

    def namespace(self, nsid: int) -> KernelNamespace:
        """Return a namespace; raise NvmeError (Invalid Namespace or Format) if it is not active."""
        found = self._namespaces.get(whole("nsid", nsid))
        if found is None:
            raise NvmeError.of(
                "Identify", Status.INVALID_NAMESPACE_OR_FORMAT | DNR, nsid=nsid, io=True
            )
        return found

    def alloc(self, length: int) -> KernelMemory:
        """Return memory of length bytes, for transfers without a copy; close() it."""
        return KernelMemory(length)

    def register(self, buffer: Buffer) -> BorrowedMemory:
        """Return a writable buffer for transfers, without a copy if it is aligned; close() it."""
        return BorrowedMemory(buffer)

    # ---- commands ----

    async def identify_data(self, cns: int, nsid: int = 0, *, csi: int = 0) -> bytes:
        """Return 4096 bytes of Identify data."""
        try:
            name = f"Identify ({Cns(cns).name.replace('_', ' ').lower()})"
        except ValueError:
            name = f"Identify (CNS {cns:02X}h)"
        sqe = commands.identify(cns, nsid, csi=csi)
        return (await self._command(sqe, name, IDENTIFY_SIZE))[0]

    async def log_page(self, lid: int, length: int, *, offset: int = 0, rae: bool = True) -> bytes:
        """Return length bytes of a log page. rae=False clears the event of the page."""
        parts = []
        end = offset + length
        while offset < end:
            size = min(_CHUNK, end - offset)
            sqe = commands.get_log_page(lid, size, offset=offset, rae=rae)
            parts.append((await self._command(sqe, f"Get Log Page (LID {lid:02X}h)", size))[0])
            offset += size
        return b"".join(parts)

    async def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0) -> int:
        """Return dword 0 of a feature's value."""
        sqe = commands.get_features(fid, nsid=nsid, sel=sel)
        return (await self._command(sqe, f"Get Features ({fid:02X}h)"))[1]

    async def set_features(self, fid: int, value: int, *, nsid: int = 0) -> int:
        """Set a feature (dword 11), and return dword 0 of the completion."""
        sqe = commands.set_features(fid, value, nsid=nsid)
        return (await self._command(sqe, f"Set Features ({fid:02X}h)"))[1]

    async def refresh(self) -> None:
        """Read the list of namespaces and their sizes again."""
        await self._load()

    async def _command(self, sqe: bytes, name: str, length: int = 0) -> tuple[bytes, int]:
        return await self.on_thread(lambda: self._admin.admin(sqe, name, length))

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Return the result of work, which may block. If the caller is cancelled, work ends first.

        Raises ConnectionLost if the controller is closed, or the kernel has removed it.
        """
        if self._closing is not None:
            self.check_usable()

        def checked() -> T:
            self.check_usable()  # reads sysfs, so not on the event loop
            return work()

        doing = asyncio.get_running_loop().run_in_executor(self._threads, checked)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait({doing})
            if not doing.cancelled():
                doing.exception()
            raise

    def check_usable(self) -> None:
        """Raise ConnectionLost if the controller is closed or gone; reads sysfs."""
        match self.state:
            case State.CLOSED:
                raise ConnectionLost("the controller was closed")
            case State.LOST:
                raise ConnectionLost(
                    f"the kernel has given up the connection to {self.where} ({self.name}); see "
                    "dmesg"
                )

    # ---- namespaces ----

    async def _load(self) -> None:
        self._identify, found = await self.on_thread(self._look)
        gone = [nsid for nsid in self._namespaces if nsid not in {b.nsid for b, _, _ in found}]
        for nsid in gone:
            self._namespaces.pop(nsid).close()
        for block, info, ids in found:
            known = self._namespaces.get(block.nsid)
            if known and known.path == block.path:
                known.update(block, info, ids)
                continue
            if known:
                known.close()
            queue = self._system.sysfs / "class" / "block" / block.name / "queue"
            self._namespaces[block.nsid] = KernelNamespace(self, block, info, ids, queue)

    def _look(
        self,
    ) -> tuple[IdentifyController, list[tuple[NamespaceInfo, IdentifyNamespace, NamespaceIds]]]:
        data, _ = self._admin.admin(
            commands.identify(Cns.CONTROLLER), "Identify (controller)", IDENTIFY_SIZE
        )
        found = []
        info = self.info
        for block in sysfs.namespaces(info, self._system) if info else []:
            try:
                sqe = commands.identify(Cns.NAMESPACE, block.nsid)
                space, _ = self._admin.admin(sqe, "Identify (namespace)", IDENTIFY_SIZE)
                ids = NamespaceIds()
                with contextlib.suppress(NvmeError):  # optional before NVMe 1.3
                    sqe = commands.identify(Cns.NAMESPACE_DESCRIPTORS, block.nsid)
                    words, _ = self._admin.admin(sqe, "Identify (descriptors)", IDENTIFY_SIZE)
                    ids = decode_descriptors(words)
            except NvmeError:  # it is being removed
                continue
            found.append((block, IdentifyNamespace.decode(space), ids))
        return IdentifyController.decode(data), found

    async def _follow(self) -> None:
        """Read the namespaces again when block devices come, go and change."""
        try:
            events = Hotplug((BLOCK,), source="kernel")
        except HotplugError as error:
            log.info("%s: namespaces are not followed: %s", self.name, error)
            return
        with events:
            async for event in events:
                if event.name.startswith("nvme"):
                    with contextlib.suppress(NvmeError, KernelError, ConnectionLost):
                        await self._load()

    # ---- the end ----

    async def close(self) -> None:
        """Have the kernel disconnect; commands in flight fail. Idempotent.

        If the caller is cancelled, it continues to the end.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        try:
            await asyncio.to_thread(self._disconnect)
        finally:
            for namespace in self._namespaces.values():
                namespace.close()
            self._admin.close()

    def _disconnect(self) -> None:
        info = sysfs.controller(self.name, self._system)
        try:
            # If this controller was lost, a different one may have the name now.
            if info and info.subsysnqn == self.where.subnqn:
                sysfs.delete(info)
        finally:
            self._threads.shutdown()
