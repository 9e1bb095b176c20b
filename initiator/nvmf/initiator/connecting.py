# SPDX-License-Identifier: BSD-3-Clause
"""connect(): a controller by the client or by the kernel, to await or to enter."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from nvmf.initiator.backends import open_controller
from nvmf.initiator.controller import Controller
from nvmf.initiator.interface import AnyController
from nvmf.initiator.options import Backend, ConnectOptions
from nvmf.initiator.transport_id import TransportId

if TYPE_CHECKING:
    from nvmf.initiator.kernel.controller import KernelController

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
