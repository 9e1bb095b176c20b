# SPDX-License-Identifier: BSD-3-Clause
"""connect(): from an address to a controller that can be used.

What happens from the call to a session with all its queues, and where:

1. ``connect()``, here, parses the address, merges the options and returns a ``Pending``; nothing
   is sent before the caller awaits or enters it.
2. ``connect_controller()``, here, chooses who connects.  ``KernelController.connect()`` has Linux
   do the rest; what follows is the client's.
3. ``Controller.connect()`` in client/controller.py asks for a session, reads which namespaces there
   are, and starts the tasks that keep the session alive and replace it.
4. ``first_session()`` in client/bringup.py settles who this host is, and tries the kinds of RDMA
   device until one has a way to the address.  Device, identity, address and options form a
   ``Place``, which does not change any more.
5. ``new_session()`` in client/bringup.py connects the queues to a ``Place``, each by the RDMA CM,
   Fabrics Connect and authentication, and enables the controller in between.

After a loss the supervisor of the controller repeats step 5 (client/recovery.py has its timers) and
reads the namespaces again.  connect_all() begins with step 2 for each subsystem,
connect_multipath() with step 3 for each path, discover() with step 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.options import Backend, ConnectOptions
from nvmf.initiator.base.pending import Pending
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller

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
) -> Pending[KernelController]: ...
@overload
def connect(
    where: str | TransportId,
    options: ConnectOptions | None = None,
    /,
    *,
    backend: Backend,
    **changes: Any,
) -> Pending[AnyController]: ...
@overload
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, **changes: Any
) -> Pending[Controller]: ...
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
    return Pending(lambda: connect_controller(place, wanted))


async def connect_controller(where: TransportId, options: ConnectOptions) -> AnyController:
    """Connect by the backend that the options name; raises as connect() does."""
    if options.backend == "kernel":
        from nvmf.initiator.kernel.controller import KernelController

        return await KernelController.connect(where, options)
    return await Controller.connect(where, options)
