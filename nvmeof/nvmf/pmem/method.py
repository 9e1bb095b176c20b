# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a method of persistence: what a replica is written and read with."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from typing_extensions import Buffer


@runtime_checkable
class Method(Protocol):
    """One range of persistent bytes, on another machine or on this one.

    Calls may overlap.  Two writes of the same bytes at the same time leave either of them, or a
    mixture.  After an error the range may hold any part of that write.
    """

    @property
    def name(self) -> str:
        """The name of the method: "nvme-fua", "nvme-write-flush", "write-read",
        "write-flush", "write-send"."""

    @property
    def size(self) -> int:
        """Bytes of the range."""

    @property
    def assumes(self) -> tuple[str, ...]:
        """The assumptions about the target's platform, a sentence each; may be empty."""

    async def write(self, offset: int, data: Buffer) -> None:
        """Write bytes; when this returns they are persistent, as far as `assumes` holds.

        Raises:
            ValueError: The bytes extend past the end of the range.
            OSError: The write failed, or the connection was lost: the data may have been written
                or not.
        """

    async def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the range.

        Raises:
            ValueError: The bytes extend past the end of the range.
            OSError: The read failed, or the connection was lost.
        """

    async def close(self) -> None:
        """End the connection; other calls in progress fail.  Further calls have no effect."""
