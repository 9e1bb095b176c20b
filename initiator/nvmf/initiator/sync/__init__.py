# SPDX-License-Identifier: BSD-3-Clause
"""The synchronous client, for scripts: the same methods, blocking.

    with connect("nvme+rdma://host:4420/NQN") as controller:
        disk = controller.namespace(1)
        data = disk.read(0, 8)  # blocks
        more = disk.pread(100, 7)  # bytes, from an offset
        with disk.open("r+b") as file, io.BufferedRandom(file) as stream:
            stream.write(b"any number of bytes")

Each controller has a thread with an asyncio loop; its methods may be called from any other thread,
and from several at once. backend="kernel" connects through Linux's nvme-rdma, and
connect_multipath() through several ports.
"""

from nvmf.initiator.sync.controller import Controller
from nvmf.initiator.sync.file import NamespaceFile
from nvmf.initiator.sync.functions import (
    connect,
    connect_all,
    connect_multipath,
    discover,
    discover_all,
    discovery_log,
    find_paths,
    watch,
)
from nvmf.initiator.sync.namespace import Namespace
from nvmf.initiator.sync.subsystem import Subsystem

__all__ = [
    "Controller",
    "Namespace",
    "NamespaceFile",
    "Subsystem",
    "connect",
    "connect_all",
    "connect_multipath",
    "discover",
    "discover_all",
    "discovery_log",
    "find_paths",
    "watch",
]
