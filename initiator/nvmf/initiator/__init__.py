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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvmf.initiator.connecting import connect
    from nvmf.initiator.controller import Controller
    from nvmf.initiator.discovery import discover, discovery_log
    from nvmf.initiator.errors import (
        AuthenticationError,
        ConnectError,
        ConnectionLost,
        NvmeError,
        OutcomeUnknown,
    )
    from nvmf.initiator.everything import Outcome, connect_all
    from nvmf.initiator.interface import AnyController, AnyNamespace
    from nvmf.initiator.kernel.errors import KernelError
    from nvmf.initiator.multipath import Subsystem, connect_multipath, find_paths
    from nvmf.initiator.namespace import Namespace
    from nvmf.initiator.options import ConnectOptions
    from nvmf.initiator.referrals import FoundLog, discover_all
    from nvmf.initiator.state import State
    from nvmf.initiator.transport_id import TransportId
    from nvmf.initiator.watching import Change, watch

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

_PLACES = {
    "connecting": ("connect",),
    "controller": ("Controller",),
    "discovery": (
        "discover",
        "discovery_log",
    ),
    "errors": (
        "AuthenticationError",
        "ConnectError",
        "ConnectionLost",
        "NvmeError",
        "OutcomeUnknown",
    ),
    "everything": (
        "Outcome",
        "connect_all",
    ),
    "interface": (
        "AnyController",
        "AnyNamespace",
    ),
    "kernel.errors": ("KernelError",),
    "multipath": (
        "Subsystem",
        "connect_multipath",
        "find_paths",
    ),
    "namespace": ("Namespace",),
    "options": ("ConnectOptions",),
    "referrals": (
        "FoundLog",
        "discover_all",
    ),
    "state": ("State",),
    "transport_id": ("TransportId",),
    "watching": (
        "Change",
        "watch",
    ),
}
"""Where each name is: loaded when somebody asks for one, because no command needs them all."""


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            found = getattr(importlib.import_module(f"nvmf.initiator.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
