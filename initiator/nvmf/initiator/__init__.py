# SPDX-License-Identifier: BSD-3-Clause
"""The initiator: an asyncio client of NVMe over RDMA, in userspace.

    async with connect("nvme+rdma://host:4420/nqn.2026-01.example:disk") as controller:
        disk = controller.namespace(1)
        await disk.write(0, bytes(4096))
        await disk.flush()

connect_multipath() takes several ports of one subsystem, of which any may fail.
nvmf.initiator.sync has the same for scripts without asyncio.  With backend="kernel" Linux's own
nvme-rdma connects instead, and its block devices move the data: AnyController and AnyNamespace are
what both have.
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from nvmf.initiator.backends import open_controller
from nvmf.initiator.connect_all import Outcome, connect_all
from nvmf.initiator.controller import Controller, State
from nvmf.initiator.discovery import discover, discovery_log
from nvmf.initiator.errors import (
    AuthenticationError,
    ConnectError,
    ConnectionLost,
    NvmeError,
    OutcomeUnknown,
)
from nvmf.initiator.interface import AnyController, AnyNamespace
from nvmf.initiator.kernel.errors import KernelError
from nvmf.initiator.multipath import Subsystem, connect_multipath, find_paths
from nvmf.initiator.namespace import Namespace
from nvmf.initiator.options import Backend, ConnectOptions
from nvmf.initiator.referrals import FoundLog, discover_all
from nvmf.initiator.transport_id import TransportId
from nvmf.initiator.watch import Change, watch

if TYPE_CHECKING:
    from nvmf.initiator.kernel.controller import KernelController

__all__ = [
    "AnyController",
    "AnyNamespace",
    "AuthenticationError",
    "Change",
    "ConnectError",
    "ConnectOptions",
    "ConnectionLost",
    "Controller",
    "FoundLog",
    "KernelError",
    "Namespace",
    "NvmeError",
    "Outcome",
    "OutcomeUnknown",
    "State",
    "Subsystem",
    "TransportId",
    "connect",
    "connect_all",
    "connect_multipath",
    "discover",
    "discover_all",
    "discovery_log",
    "find_paths",
    "watch",
]


Opened = TypeVar("Opened", bound=AnyController)


class _Connecting(Generic[Opened]):
    """What connect() gives: await it, or enter it."""

    def __init__(self, where: TransportId, options: ConnectOptions) -> None:
        self._where = where
        self._options = options
        self._controller: Opened | None = None

    def __await__(self) -> Generator[Any, None, Opened]:
        opening: Any = open_controller(self._where, self._options)
        return opening.__await__()  # type: ignore[no-any-return]

    async def __aenter__(self) -> Opened:
        self._controller = await self
        return self._controller

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._controller is not None:
            await self._controller.close()


@overload
def connect(
    where: str | TransportId,
    options: ConnectOptions | None = None,
    /,
    *,
    backend: Literal["kernel"],
    **changes: Any,
) -> _Connecting[KernelController]: ...
@overload
def connect(
    where: str | TransportId,
    options: ConnectOptions | None = None,
    /,
    *,
    backend: Backend,
    **changes: Any,
) -> _Connecting[AnyController]: ...
@overload
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> _Connecting[Controller]: ...
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> Any:
    """Connect to a controller: `async with connect(...) as controller`, or await and close() it.

    where is a URL nvme+rdma://HOST:PORT/NQN?OPTION=VALUE, or a TransportId.  Options are those of
    ConnectOptions; keyword arguments count before those of the URL.  backend="kernel" connects
    through Linux's nvme-rdma (for type checkers: name it here rather than in options or the URL).
    Raises ValueError for what is written wrongly, ConnectError where no connection comes about,
    NvmeError where the controller refuses, ConnectionLost where it cannot be used, and KernelError
    for all of these where the kernel connects.
    """
    place = TransportId.of(where)
    return _Connecting(
        place, (options or ConnectOptions()).with_options({**place.options, **changes})
    )
