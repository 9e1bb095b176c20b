# SPDX-License-Identifier: BSD-3-Clause
"""Multipath: one subsystem through several ports. Callers do not see the loss of a path.

    paths = await find_paths("nvme+rdma://host:4420/nqn.2026-01.example:disk")
    async with connect_multipath(paths, policy="round-robin") as subsystem:
        await subsystem.namespace(1).write(0, bytes(4096))

paths.py describes when commands wait, fail, or are sent again.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvmf.auth.key import Key
from nvmf.initiator.base.keywords import DEFAULT, given
from nvmf.initiator.base.options import Backend, ConnectOptions, DeviceKind, RemoteKeys
from nvmf.initiator.base.pending import Pending
from nvmf.initiator.base.transport_id import TransportId
from nvmf.initiator.multipath.discovery import find_paths
from nvmf.initiator.multipath.namespace import MultipathNamespace
from nvmf.initiator.multipath.path import Path
from nvmf.initiator.multipath.policy import Policy, chooser
from nvmf.initiator.multipath.subsystem import Subsystem, places_of

__all__ = [
    "MultipathNamespace",
    "Path",
    "Policy",
    "Subsystem",
    "connect_multipath",
    "find_paths",
]


def connect_multipath(
    paths: Iterable[str | TransportId], options: ConnectOptions | None = None, /, *,
    policy: Policy = "numa",
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
) -> Pending[Subsystem]:  # fmt: skip
    """Connect to a subsystem through several ports: enter it, or await and close() it.

    paths are URLs or TransportIds with one NQN, the nearest first; find_paths() returns those in a
    discovery log. Options are those of connect(), for every path. A path that cannot be reached is
    tried again, like a lost one.

    Raises ValueError for an invalid URL or value, the exceptions of connect() if no path can be
    reached, and ConnectionLost if the paths lead to different namespaces.
    """
    changes = given(locals())
    if isinstance(paths, str):
        raise ValueError("paths must be a list of URLs: find_paths() returns one for a single URL")
    wanted = (options or ConnectOptions()).with_options(changes)
    chooser(policy)
    places = places_of(paths, wanted, changes)
    urls = [str(place) for place, _ in places]
    return Pending(
        lambda: Subsystem.connect(places, wanted, policy), f"connect_multipath({urls!r})"
    )
