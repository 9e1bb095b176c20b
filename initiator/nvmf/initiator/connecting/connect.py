# SPDX-License-Identifier: BSD-3-Clause
"""connect(): a controller by the client or by the kernel, to await or to enter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.opening import Opening
from nvmf.initiator.base.options import Backend, ConnectOptions
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller
from nvmf.initiator.connecting.backends import open_controller

if TYPE_CHECKING:
    from nvmf.initiator.kernel.controller import KernelController


@overload
def connect(
    where: str | TransportId,
    options: ConnectOptions | None = None,
    /,
    *,
    backend: Literal["kernel"],
    **changes: Any,
) -> Opening[KernelController]: ...
@overload
def connect(
    where: str | TransportId,
    options: ConnectOptions | None = None,
    /,
    *,
    backend: Backend,
    **changes: Any,
) -> Opening[AnyController]: ...
@overload
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> Opening[Controller]: ...
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
    wanted = (options or ConnectOptions()).with_options({**place.options, **changes})
    return Opening(lambda: open_controller(place, wanted))
