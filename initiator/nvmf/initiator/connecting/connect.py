# SPDX-License-Identifier: BSD-3-Clause
"""connect(): from an address to a controller that can be used.

What happens from the call to a session with all its queues, and where:

1. ``connect()``, here, parses the address, merges the options and returns a ``Pending``; nothing
   is sent before the caller awaits or enters it.
2. ``connect_controller()``, here, chooses the backend. ``KernelController.connect()`` has Linux do
   the rest; what follows is the client's.
3. ``Controller.connect()`` in client/controller.py asks for a session; its ``Connection``
   (client/connection.py) reads the namespaces, and starts the tasks that keep the session alive
   and replace it.
4. ``first_session()`` in client/bringup.py determines the host identity, and tries the kinds of
   RDMA device until one has a route to the address.  Device, identity, address and options form a
   ``Place``, which no longer changes.
5. ``new_session()`` in client/bringup.py connects the queues to a ``Place``, each by the RDMA CM,
   Fabrics Connect and authentication, and enables the controller in between.

After a loss the supervisor of the connection repeats step 5 (client/recovery.py has its timers) and
reads the namespaces again.  connect_all() begins with step 2 for each subsystem,
connect_multipath() with step 3 for each path, discover() with step 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from nvmf.auth.key import Key
from nvmf.initiator.base.interface import AnyController
from nvmf.initiator.base.keywords import DEFAULT, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.pending import Pending
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.client.controller import Controller

if TYPE_CHECKING:
    from nvmf.initiator.kernel.controller import KernelController


@overload
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    write_queues: int = DEFAULT.write_queues, poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> Pending[Controller]: ...  # fmt: skip
@overload
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    backend: Literal["kernel"], write_queues: int = DEFAULT.write_queues,
    poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> Pending[KernelController]: ...  # fmt: skip
@overload
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    backend: Backend, write_queues: int = DEFAULT.write_queues,
    poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> Pending[AnyController]: ...  # fmt: skip
def connect(
    where: str | TransportId, options: ConnectOptions | None = None, /, *,
    queues: int = DEFAULT.queues, queue_depth: int = DEFAULT.queue_depth,
    kato: float = DEFAULT.kato, hostnqn: str | None = DEFAULT.hostnqn,
    hostid: str | None = DEFAULT.hostid, host_traddr: str | None = DEFAULT.host_traddr,
    reconnect_delay: float = DEFAULT.reconnect_delay, ctrl_loss_tmo: float = DEFAULT.ctrl_loss_tmo,
    io_timeout: float = DEFAULT.io_timeout, admin_timeout: float = DEFAULT.admin_timeout,
    connect_timeout: float = DEFAULT.connect_timeout, in_capsule: bool = DEFAULT.in_capsule,
    disable_sqflow: bool = DEFAULT.disable_sqflow,
    dhchap_secret: Key | str | None = DEFAULT.dhchap_secret,
    dhchap_ctrl_secret: Key | str | None = DEFAULT.dhchap_ctrl_secret,
    dhchap_secret_file: str | None = DEFAULT.dhchap_secret_file,
    dhchap_ctrl_secret_file: str | None = DEFAULT.dhchap_ctrl_secret_file,
    device: DeviceKind = DEFAULT.device, remote_keys: RemoteKeys = DEFAULT.remote_keys,
    backend: Backend = DEFAULT.backend, write_queues: int = DEFAULT.write_queues,
    poll_queues: int = DEFAULT.poll_queues,
    fast_io_fail_tmo: float | None = DEFAULT.fast_io_fail_tmo, tos: int | None = DEFAULT.tos,
    duplicate_connect: bool = DEFAULT.duplicate_connect,
) -> object:  # fmt: skip
    """Connect to a controller: `async with connect(...) as controller`, or await and close() it.

    where is a URL nvme+rdma://HOST:PORT/NQN?OPTION=VALUE, or a TransportId. The keywords are the
    options that help(ConnectOptions) describes; they take precedence over the URL, and the URL over
    options. backend="kernel" connects through Linux's nvme-rdma (for type checkers: name it here
    rather than in options or the URL).

    Raises ValueError for a wrong URL or value, ConnectError if no connection can be made, NvmeError
    if the controller refuses, ConnectionLost if the controller cannot be used, and KernelError for
    all of these if the kernel connects.
    """
    changes = given(locals())
    place = TransportId.of(where)
    wanted = (options or ConnectOptions()).with_options({**place.options, **changes})
    return Pending(lambda: connect_controller(place, wanted), f"connect({str(place)!r})")


async def connect_controller(where: TransportId, options: ConnectOptions) -> AnyController:
    """Connect with the backend given in the options; raise as connect() does."""
    if options.backend == "kernel":
        from nvmf.initiator.kernel.controller import KernelController

        return await KernelController.connect(where, options)
    return await Controller.connect(where, options)
