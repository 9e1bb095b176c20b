# SPDX-License-Identifier: BSD-3-Clause
"""A memory connection, as the control thread knows it."""

from __future__ import annotations

import asyncio

from nvmf.spec.memory import Access, Open
from nvmf.target.io.engine import MemoryConnection
from nvmf.target.io.memoryauth import Exchange
from nvmf.target.io.ports import where
from nvmf.target.model.memory import MemoryRefused, may_use
from nvmf.target.model.namespace import Namespace
from nvmf.target.model.subsystem import Subsystem


class Peer:
    """A memory connection, and what it has opened."""

    def __init__(self, handle: MemoryConnection, timer: asyncio.TimerHandle) -> None:
        self.handle = handle
        self.timer = timer
        self.asked = False
        """Whether OPEN has arrived, whatever its content."""
        self.request: Open | None = None
        self.exchange: Exchange | None = None
        self.busy = False
        """Whether a message of the host is being answered."""
        self.subsystem: Subsystem | None = None
        self.namespace: Namespace | None = None
        self.access = Access.READ
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closing = False

    def __str__(self) -> str:
        host = f" ({self.request.hostnqn})" if self.request is not None else ""
        return f"memory connection of {where(self.handle.peer)}{host}"

    @property
    def authenticated(self) -> bool:
        """Whether the host has proven who it is."""
        return self.exchange is not None and self.exchange.succeeded

    def close(self, reason: str) -> asyncio.Future[None]:
        """Begin to end the connection; the future is done when the host cannot reach the memory."""
        if not self.closing:
            self.closing = True
            self.handle.close(reason)
        return self.ended


def why_not(peer: Peer) -> str | None:
    """Return why a host may no longer use its range; None if it may."""
    assert peer.subsystem is not None
    assert peer.request is not None
    try:
        request = peer.request
        found = may_use(
            peer.subsystem,
            request.nsid,
            request.hostnqn,
            request.hostid,
            peer.access,
            authenticated=peer.authenticated,
        )
    except MemoryRefused as error:
        return str(error)
    return None if found is peer.namespace else "the namespace was replaced"
