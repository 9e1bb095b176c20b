# SPDX-License-Identifier: BSD-3-Clause
"""Stores that fail: a sentence when it happens, and no flood of them."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from dataclasses import dataclass
from typing import Any

from nvmf.spec.opcodes import command_title
from nvmf.spec.status import status_name
from nvmf.target.model.namespace import Namespace

log = logging.getLogger("nvmf.target")

PAUSE = 10.0
"""Seconds until a namespace whose store fails is spoken of again."""

_DEVICE = "see this machine's kernel log for the device that it lies on"
_HINTS = {
    errno.ENOSPC: "make room where it lies",
    errno.EDQUOT: "raise its owner's quota, or make room within it",
    errno.EIO: _DEVICE,
    errno.ENODATA: _DEVICE,
    errno.EROFS: "its file system or device has become read-only: see this machine's kernel log",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    0: "a sync of it has failed before, or it was cut short: mend it and restart the target",
}


@dataclass
class _Watched:
    """A namespace whose store may fail."""

    namespace: Namespace
    where: str
    store: Any
    timer: asyncio.TimerHandle | None = None


class FaultLog:
    """Says what the engine tells of stores that failed commands."""

    def __init__(self) -> None:
        self._watched: dict[Namespace, _Watched] = {}

    def watch(self, namespace: Namespace, where: str, store: Any) -> None:
        """There is a namespace; where is how sentences name it."""
        self._watched[namespace] = _Watched(namespace, where, store)

    def forget(self, namespace: Namespace) -> None:
        """It is about to be closed."""
        one = self._watched.pop(namespace)
        if one.timer is not None:
            one.timer.cancel()

    def tell(self, fault: Any) -> None:
        """Log it, and let the engine tell of that namespace again after a while."""
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


def sentence(store: Any, fault: Any, errors: int) -> str:
    """What failed, with what, and what to do about it."""
    name = command_title(fault.opcode, io=True)
    if fault.length:
        name += f" of {fault.length} bytes at byte {fault.offset}"
    status = status_name(fault.status, io=True)
    behind = store.path or f"the {store.kind} store"
    said = os.strerror(fault.error) if fault.error else "the system named no error"
    hint = _HINTS.get(fault.error, _DEVICE)
    many = f" ({errors} commands have failed so far)" if errors > 1 else ""
    return f"{name} failed with {status}: {behind}: {said}; {hint}{many}"
