# SPDX-License-Identifier: BSD-3-Clause
"""A queue pair, as used by controllers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nvmf.auth import ControllerAuth
from nvmf.spec.fabrics import ConnectData
from nvmf.target.command.engine import Address, QueueHandle

if TYPE_CHECKING:
    from nvmf.target.model.controller import Controller


@dataclass(eq=False)
class Queue:
    """A connected queue pair, before and after its Connect."""

    handle: QueueHandle
    qid: int
    recv_depth: int
    """Maximum outstanding capsules of the host."""
    peer: Address = ("", 0)
    local: Address = ("", 0)
    """The address that the host connected to."""
    asked: ConnectData | None = None
    """The data of its Connect, not yet verified."""
    controller: Controller | None = None
    """The controller of the queue, after Connect."""
    sq_size: int = 0
    """Entries, after Connect."""
    leaving: bool = False
    """Whether the host has sent Disconnect, or has failed to authenticate."""
    auth: ControllerAuth | None = None
    """Set by Connect, if the host has a key."""
    authentications: int = 0
    """Successful authentications."""
    auth_failed: bool = False

    @property
    def has_table(self) -> bool:
        """Whether the engine has a table of namespaces for it (I/O queues)."""
        return self.auth is None or self.authentications > 0

    @property
    def locked(self) -> bool:
        """Whether the host has yet to authenticate on it."""
        return self.auth is not None and not self.auth.authenticated

    def __str__(self) -> str:
        host, port = self.peer
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self.controller is None:
            host = f" host {self.asked.hostnqn}" if self.asked is not None else ""
            return f"{where}{host} queue {self.qid}"
        return f"{where} {self.controller} queue {self.qid}"
