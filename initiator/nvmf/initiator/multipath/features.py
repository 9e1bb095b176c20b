# SPDX-License-Identifier: BSD-3-Clause
"""Features that were set, to be applied to every controller of a subsystem.

A feature that a host sets belongs to one controller and ends with it (except features of a
namespace, which are set once): each new connection has a new controller.
"""

from __future__ import annotations

from nvmf.initiator.base.retry import MAX_RETRIES


class Features:
    """Values (dword 11) by Feature Identifier."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}
        self._losses: dict[int, int] = {}
        """Connections in a row that ended while a new controller was given the value."""

    def put(self, fid: int, value: int) -> int | None:
        """Remember a value, and return the previous one."""
        before = self.values.get(fid)
        self.values[fid] = value
        self._losses.pop(fid, None)
        return before

    def restore(self, fid: int, value: int, before: int | None) -> None:
        """Undo put(), unless a different value was put after it."""
        if self.values.get(fid) != value:
            return
        if before is None:
            self.values.pop(fid, None)
        else:
            self.values[fid] = before

    def taken(self, fid: int) -> None:
        """A new controller has answered the command."""
        self._losses.pop(fid, None)

    def lost(self, fid: int, value: int) -> bool:
        """Count a connection that ended during the command; forget the value if there were many.

        Return whether it was forgotten. Otherwise a controller that ends the connection at the
        command could never be connected again.
        """
        count = self._losses[fid] = self._losses.get(fid, 0) + 1
        if count <= MAX_RETRIES or self.values.get(fid) != value:
            return False
        del self.values[fid], self._losses[fid]
        return True
