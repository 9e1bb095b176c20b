# SPDX-License-Identifier: BSD-3-Clause
"""A queue pair as controllers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nvmf.target.controller import Controller

Address = tuple[str, int]


class QueueHandle(Protocol):
    """What a controller does to a queue pair (nvmf.engine.Qpair is one); nothing here waits."""

    @property
    def stats(self) -> dict[str, int]: ...
    def connected(self, sq_size: int, namespaces: Any) -> None: ...
    def gate(self, gates: Any) -> None: ...
    def show(self, namespaces: Any) -> None: ...
    def enable(self, enabled: bool) -> None: ...
    def disconnect(self) -> None: ...


@dataclass(eq=False)
class Queue:
    """A connected queue pair, before and after its Connect."""

    handle: QueueHandle
    qid: int
    recv_depth: int
    """Capsules that the host may have outstanding."""
    peer: Address = ("", 0)
    local: Address = ("", 0)
    """The address that the host connected to."""
    controller: Controller | None = None
    """Whose queue it is, after Connect."""
    sq_size: int = 0
    """Entries, after Connect."""
    leaving: bool = False
    """The host has sent Disconnect."""

    def __str__(self) -> str:
        host, port = self.peer
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self.controller is None:
            return f"{where} queue {self.qid}"
        return f"{where} {self.controller} queue {self.qid}"
