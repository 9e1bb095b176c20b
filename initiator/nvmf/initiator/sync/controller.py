# SPDX-License-Identifier: BSD-3-Clause
"""A controller whose methods run on the event loop of a different thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nvmf.initiator.base.interface import AnyController, AnyMemory
from nvmf.initiator.base.options import ConnectOptions
from nvmf.initiator.base.state import State
from nvmf.initiator.base.subscription import Subscription
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller as AsyncController
from nvmf.initiator.sync.blocking import Loop
from nvmf.initiator.sync.namespace import Namespace
from nvmf.spec.features import AsyncEvent
from nvmf.spec.identify import IdentifyController
from nvmf.spec.properties import Version

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Controller:
    """A connected controller; make it with connect(), and close() it."""

    def __init__(self, loop: Loop, controller: AnyController) -> None:
        self._loop = loop
        self._controller = controller
        self._lock = threading.Lock()
        """Protects _closing."""
        self._closing = False
        self._closed = threading.Event()

    def __repr__(self) -> str:
        return repr(self._controller)

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
        """Address and NQN of the controller."""
        return self._controller.where

    @property
    def options(self) -> ConnectOptions:
        """The options of the connection."""
        return self._controller.options

    @property
    def state(self) -> State:
        """Live, reconnecting, lost or closed."""
        return self._controller.state

    @property
    def device(self) -> str:
        """The kind of device: iwarp, roce, system or kernel."""
        return self._controller.device

    @property
    def identify(self) -> IdentifyController:
        """Identify Controller, as read at the last connection."""
        return self._controller.identify

    @property
    def version(self) -> Version:
        """NVMe version (VS)."""
        return self._controller.version

    @property
    def queues(self) -> int:
        """I/O queues that the controller granted."""
        return self._controller.queues

    @property
    def reconnects(self) -> int:
        """How often the controller has reconnected; ValueError with the kernel or several paths."""
        return self._client("the count of reconnections").reconnects

    @property
    def max_transfer(self) -> int:
        """Maximum bytes of one command; longer transfers are split."""
        return self._controller.max_transfer

    @property
    def namespaces(self) -> list[Namespace]:
        """The active namespaces, by NSID."""
        found = self._loop.get(lambda: self._controller.namespaces)
        return [Namespace(self._loop, namespace) for namespace in found]

    def namespace(self, nsid: int) -> Namespace:
        """Return a namespace; raise NvmeError if it is not active."""
        return Namespace(self._loop, self._loop.get(lambda: self._controller.namespace(nsid)))

    def alloc(self, length: int) -> AnyMemory:
        """Return registered memory of length bytes, for transfers without a copy; close() it."""
        return self._controller.alloc(length)

    def register(self, buffer: Buffer) -> AnyMemory:
        """Register a writable buffer, for transfers without a copy; close() the registration.

        ValueError if the buffer is closed or read-only.
        """
        return self._controller.register(buffer)

    def on_event(self, callback: Callable[[AsyncEvent], object]) -> Subscription[AsyncEvent]:
        """Call callback(event) for every asynchronous event, on the controller's own thread.

        Call the result, or leave it as a context manager, to end that. The callback must not call
        the synchronous API. Raises ValueError with the kernel's backend and with several paths.
        """
        controller = self._client("asynchronous events")
        return self._loop.get(lambda: controller.on_event(callback))

    def _client(self, what: str) -> AsyncController:
        if not isinstance(self._controller, AsyncController):
            raise ValueError(
                f"{what}: available only for a single controller connected by the client"
            )
        return self._controller

    def refresh(self) -> None:
        """Read the list of namespaces and their sizes again."""
        self._loop.call(self._controller.refresh())

    def reset(self) -> bool:
        """Reset the controller: disable it, disconnect, and connect again.

        Commands of other threads are sent again afterwards. Returns False if it could not be
        disabled, and was only disconnected. Raises ConnectionLost if it cannot be connected again,
        and ValueError with the kernel's backend and with several paths.
        """
        return self._loop.call(self._client("reset()").reset())

    def reauthenticate(self) -> None:
        """Authenticate every queue again; raise AuthenticationError on failure.

        Raises ValueError with the kernel's backend, which does this through sysfs, and with several
        paths.
        """
        if self._controller.device == "kernel":
            raise ValueError(
                "the kernel authenticates again when a key is written to dhchap_secret in the "
                "controller's folder of /sys/class/nvme"
            )
        self._loop.call(self._client("reauthenticate()").reauthenticate())

    def identify_data(self, cns: int, nsid: int = 0, *, csi: int = 0) -> bytes:
        """Return 4096 bytes of Identify data."""
        return self._loop.call(self._controller.identify_data(cns, nsid, csi=csi))

    def log_page(self, lid: int, length: int, *, offset: int = 0, rae: bool = True) -> bytes:
        """Return length bytes of a log page."""
        return self._loop.call(self._controller.log_page(lid, length, offset=offset, rae=rae))

    def get_features(self, fid: int, *, nsid: int = 0, sel: int = 0) -> int:
        """Return dword 0 of a feature's value."""
        return self._loop.call(self._controller.get_features(fid, nsid=nsid, sel=sel))

    def set_features(self, fid: int, value: int, *, nsid: int = 0) -> int:
        """Set a feature (dword 11), and return dword 0 of the completion."""
        return self._loop.call(self._controller.set_features(fid, value, nsid=nsid))

    def close(self) -> None:
        """Shut the controller down, disconnect, and end the thread.

        Any thread may call it, any number of times; each call returns when the controller is
        closed. Calls that other threads have in progress end with ConnectionLost. In a process that
        was forked, or while the interpreter exits, it does nothing, and all other calls raise
        ConnectionLost.
        """
        if self._loop.gone:
            return
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
