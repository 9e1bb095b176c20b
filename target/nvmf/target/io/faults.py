# SPDX-License-Identifier: BSD-3-Clause
"""Log messages for stores that fail, limited in rate."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from dataclasses import dataclass

from nvmf.spec.opcodes import command_title
from nvmf.spec.status import status_name
from nvmf.target.command.engine import StoreFacts
from nvmf.target.io.engine import Faulted
from nvmf.target.model.namespace import Namespace

log = logging.getLogger("nvmf.target")

PAUSE = 10.0
"""Seconds until the next message about the same namespace."""

_DEVICE = "see this machine's kernel log for the device that holds it"
_STORE = "see the message about its exception"
_HINTS = {
    errno.ENOSPC: "free space on its file system",
    errno.EDQUOT: "raise its owner's quota, or free space within it",
    errno.EIO: _DEVICE,
    errno.ENODATA: _DEVICE,
    errno.EROFS: "its file system or device has become read-only: see this machine's kernel log",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.ETIMEDOUT: "see why the store has not answered, or raise its time_limit",
    0: "an earlier sync failed, or the file was truncated: repair it and restart the target",
}


@dataclass
class _Watched:
    """A namespace and its store, which may fail."""

    namespace: Namespace
    where: str
    store: StoreFacts
    timer: asyncio.TimerHandle | None = None


class FaultLog:
    """Logs commands that stores failed, as reported by the engine."""

    def __init__(self) -> None:
        self._watched: dict[Namespace, _Watched] = {}

    def watch(self, namespace: Namespace, where: str, store: StoreFacts) -> None:
        """Add a namespace; where is its name in messages."""
        self._watched[namespace] = _Watched(namespace, where, store)

    def forget(self, namespace: Namespace) -> None:
        """Remove a namespace that is about to be closed."""
        one = self._watched.pop(namespace)
        if one.timer is not None:
            one.timer.cancel()

    def tell(self, fault: Faulted) -> None:
        """Log a fault, and enable the next report for this namespace after PAUSE seconds."""
        for one in self._watched.values():
            if one.namespace.engine is fault.namespace:
                failed = one.namespace.stats()["errors"]
                log.error(
                    "%s: %s",
                    one.where,
                    sentence(one.store, fault, failed),
                    extra={
                        "nsid": one.namespace.nsid,
                        "status": status_name(fault.status, io=True),
                    },
                )
                rearm = one.namespace.engine.rearm
                one.timer = asyncio.get_running_loop().call_later(PAUSE, rearm)


def sentence(store: StoreFacts, fault: Faulted, errors: int) -> str:
    """Return a message: the command, the error, and a remedy."""
    name = command_title(fault.opcode, io=True)
    if fault.length:
        name += f" of {fault.length} bytes at byte {fault.offset}"
    status = status_name(fault.status, io=True)
    behind = store.path or f"the {store.kind} store"
    said = os.strerror(fault.error) if fault.error else "no error reported by the system"
    hint = _HINTS.get(fault.error, _DEVICE)
    if store.kind in ("python", "mirror") and fault.error != errno.ETIMEDOUT:
        hint = _STORE
    many = f" ({errors} commands have failed so far)" if errors > 1 else ""
    return f"{name} failed with {status}: {behind}: {said}; {hint}{many}"
