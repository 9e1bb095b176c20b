# SPDX-License-Identifier: BSD-3-Clause
"""Features that were set, to be applied to every controller of a subsystem.

A feature that a host sets belongs to one controller and ends with it (except features of a
namespace, which are set once): each new connection has a new controller.
"""

from __future__ import annotations


class Features:
    """Values (dword 11) by Feature Identifier."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}

    def put(self, fid: int, value: int) -> int | None:
        """Remember a value, and return the previous one."""
        before = self.values.get(fid)
        self.values[fid] = value
        return before

    def restore(self, fid: int, value: int, before: int | None) -> None:
        """Undo put(), unless a different value was put after it."""
        if self.values.get(fid) != value:
            return
        if before is None:
            self.values.pop(fid, None)
        else:
            self.values[fid] = before

    def forget(self, fid: int, value: int) -> bool:
        """Forget a value, unless a different one was put after it; return whether it was."""
        if self.values.get(fid) != value:
            return False
        del self.values[fid]
        return True
