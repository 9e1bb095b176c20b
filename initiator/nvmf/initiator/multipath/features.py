# SPDX-License-Identifier: BSD-3-Clause
"""Features that were set of a subsystem, which every one of its controllers is to have.

What a host sets of one controller is that controller's alone (those of a namespace are not: they
are set once), and is gone with it: a connection that is made anew leads to another controller.
"""

from __future__ import annotations


class Features:
    """Values (dword 11) by Feature Identifier."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}

    def put(self, fid: int, value: int) -> int | None:
        """Remember a value; the one before."""
        before = self.values.get(fid)
        self.values[fid] = value
        return before

    def restore(self, fid: int, value: int, before: int | None) -> None:
        """Take put() back, unless another value came after it."""
        if self.values.get(fid) != value:
            return
        if before is None:
            self.values.pop(fid, None)
        else:
            self.values[fid] = before
