# SPDX-License-Identifier: BSD-3-Clause
"""The exception of captures."""

from __future__ import annotations

from nvmf.errors import Error


class CaptureError(Error):
    """A capture cannot be read, made or replayed; the message is a sentence for the user."""


class UnwrittenError(CaptureError):
    """A recording cannot be written."""

    def __init__(self, error: OSError, packets: int) -> None:
        super().__init__(f"cannot write the packets: {error.strerror or error}")
        self.error = error
        self.packets = packets
        """The number of packets that are in the file."""
