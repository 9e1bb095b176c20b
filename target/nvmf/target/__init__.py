# SPDX-License-Identifier: BSD-3-Clause
"""The target: subsystems, controllers, discovery, and the server that puts them on the engine.

Its rooms, from the bottom up; each imports only those before it:

- ``command``: one command and how it waits; the engine's objects as protocols
- ``lasting``: state that outlives a restart; the only owner of its files
- ``model``: subsystems, controllers, queues and namespaces
- ``commands``: a handler for each command: takes a command and a clock, returns a completion
- ``io``: connections, ports and stores; the only user of the engine
- ``change``: the difference between two configurations, applied; hot-plug
- ``metrics``: all counters at one moment, as Prometheus reads them
- ``service``: the server, its administration, keys and announcements
- ``rpc``: the administration socket and its methods
- ``logs``: log records for terminals, files and the journal

``sync`` is serve() for programs without asyncio; ``client`` administers a running target. ``Store``
is the base class of storage written in Python; each such store has a thread of its own.

``command``, ``model`` and ``commands`` are sans-IO. Everything runs on one thread, the event
loop's, except work that may block, which ``lasting`` and ``io`` do on executors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmf.target.io.pystore import Store, register_store
    from nvmf.target.io.stores import ServerError
    from nvmf.target.service.embedded import Target, serve
    from nvmf.target.service.starting import Starting

__all__ = ["ServerError", "Starting", "Store", "Target", "register_store", "serve"]

_WHERE = {
    "ServerError": "io.stores",
    "Starting": "service.starting",
    "Store": "io.pystore",
    "register_store": "io.pystore",
}
"""The room and the module of a public name, if it is not service.embedded."""


def __getattr__(name: str) -> object:
    """Import what is public when it is first used: one room alone does not load the others."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_WHERE.get(name, 'service.embedded')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
