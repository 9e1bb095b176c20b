# SPDX-License-Identifier: BSD-3-Clause
"""The client for scripts: the same methods, blocking.

    with connect("nvme+rdma://host:4420/NQN") as controller:
        data = controller.namespace(1).read(0, 8)

One thread with an asyncio loop of its own serves a controller; its methods may be called from any
other thread, and from several at once.  backend="kernel" has Linux's nvme-rdma connect.
"""

from nvmf.initiator.sync.controller import Controller, Namespace
from nvmf.initiator.sync.functions import (
    connect,
    connect_all,
    connect_multipath,
    discover,
    find_paths,
    watch,
)

__all__ = [
    "Controller",
    "Namespace",
    "connect",
    "connect_all",
    "connect_multipath",
    "discover",
    "find_paths",
    "watch",
]
