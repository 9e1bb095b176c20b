# SPDX-License-Identifier: BSD-3-Clause
"""The initiator: an asyncio client of NVMe over RDMA, in userspace.

    async with connect("nvme+rdma://host:4420/nqn.2026-01.example:disk") as controller:
        disk = controller.namespace(1)
        await disk.write(0, bytes(4096))  # whole blocks, from LBA 0
        data = await disk.pread(100, 7)  # bytes, from an offset
        await disk.flush()

connect_multipath() takes several ports of one subsystem, and tolerates the failure of all but one.
nvmf.initiator.sync has the same for scripts without asyncio. With backend="kernel" Linux's own
nvme-rdma connects instead, and its block devices move the data: AnyController and AnyNamespace are
what both have.

The functions are listed below.  help(nvmf.initiator.NAME) describes the classes:

- ConnectOptions: every option of a connection, which the functions take as keywords
- TransportId: where a controller is, as a URL writes it
- Pending: what connect() and connect_multipath() return, to await or to enter
- Controller, Subsystem: a connected controller; several of them as paths to one subsystem
- Namespace: reads, writes and the other commands
- AnyController, AnyNamespace: what the client and the kernel have in common, for type checkers
- State: of a connection
- Change, FoundLog, Outcome: results of watch(), discover_all() and connect_all()
- NvmeError: a command that the controller completed with an error status
- ConnectError: no connection could be made; KernelError: Linux could not connect
- ConnectionLost: the controller is out of reach; with the subclasses AuthenticationError and
  OutcomeUnknown (a Compare and Write that may or may not have been done)

Its rooms, from the bottom up; each imports only those before it:

- ``base``: options, addresses, errors, and what the client and the kernel share
- ``hostfiles``: the files that say what a host connects to
- ``kernel``: controllers that Linux's nvme-rdma connects; imports nothing of the engine
- ``client``: controllers, sessions, queues and namespaces in this process
- ``discovery``: discovery logs, referrals, changes, mDNS
- ``multipath``: a subsystem by several ports
- ``connecting``: what a caller connects with; connect.py describes the way to a session
- ``sync``: all of it for scripts without asyncio
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmf.initiator.base.errors import (
        AuthenticationError,
        ConnectError,
        ConnectionLost,
        NvmeError,
        OutcomeUnknown,
    )
    from nvmf.initiator.base.interface import AnyController, AnyNamespace
    from nvmf.initiator.base.options import ConnectOptions
    from nvmf.initiator.base.pending import Pending
    from nvmf.initiator.base.state import State
    from nvmf.initiator.base.transport_id import TransportId
    from nvmf.initiator.client.controller import Controller
    from nvmf.initiator.client.namespace import Namespace
    from nvmf.initiator.connecting.connect import connect
    from nvmf.initiator.connecting.everything import Outcome, connect_all
    from nvmf.initiator.discovery.log import discover, discovery_log
    from nvmf.initiator.discovery.referrals import FoundLog, discover_all
    from nvmf.initiator.discovery.watching import Change, watch
    from nvmf.initiator.kernel.errors import KernelError
    from nvmf.initiator.multipath import Subsystem, connect_multipath, find_paths

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
    "Pending",
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

_PLACES = {
    "base.errors": (
        "AuthenticationError",
        "ConnectError",
        "ConnectionLost",
        "NvmeError",
        "OutcomeUnknown",
    ),
    "base.interface": (
        "AnyController",
        "AnyNamespace",
    ),
    "base.options": ("ConnectOptions",),
    "base.pending": ("Pending",),
    "base.state": ("State",),
    "base.transport_id": ("TransportId",),
    "kernel.errors": ("KernelError",),
    "client.controller": ("Controller",),
    "client.namespace": ("Namespace",),
    "discovery.log": (
        "discover",
        "discovery_log",
    ),
    "discovery.referrals": (
        "FoundLog",
        "discover_all",
    ),
    "discovery.watching": (
        "Change",
        "watch",
    ),
    "multipath": (
        "Subsystem",
        "connect_multipath",
        "find_paths",
    ),
    "connecting.connect": ("connect",),
    "connecting.everything": (
        "Outcome",
        "connect_all",
    ),
}
"""The module of each name, which is loaded at the first access: no command needs them all."""


def __getattr__(name: str) -> object:
    for module, names in _PLACES.items():
        if name in names:
            found = getattr(importlib.import_module(f"nvmf.initiator.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the functions only: with the classes, help() would be far too long."""
    return [name for name in __all__ if name.islower()]
