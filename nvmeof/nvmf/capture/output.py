# SPDX-License-Identifier: BSD-3-Clause
"""The file of a recording: it has whole blocks only, also if its disk is full."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO

from nvmf.capture.errors import UnwrittenError

_TOGETHER = 1 << 20
"""Bytes that are written in one piece."""


class Output:
    """Writes blocks, and counts the packets among those that were written."""

    def __init__(self, out: BinaryIO) -> None:
        """out: unbuffered."""
        self._out = out
        self._blocks: list[tuple[bytes, bool]] = []
        self._bytes = 0
        self._packets = 0
        self._failed = False

    def add(self, block: bytes, *, packet: bool = False) -> None:
        """Write a block now or at the next flush; nothing after a failure.

        Raises:
            UnwrittenError: The file cannot be written.
        """
        if self._failed:
            return
        self._blocks.append((block, packet))
        self._bytes += len(block)
        if self._bytes >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write all blocks; raise as add()."""
        blocks, self._blocks, self._bytes = self._blocks, [], 0
        data = memoryview(b"".join(block for block, _ in blocks))
        done = 0
        try:
            while done < len(data):
                done += self._written(data[done:])
        except OSError as error:
            self._failed = True
            self._cut(blocks, done)
            raise UnwrittenError(error, self._packets) from None
        self._packets += sum(packet for _, packet in blocks)

    def _written(self, data: memoryview) -> int:
        count = self._out.write(data)
        if count is None:
            raise BlockingIOError("it is not ready, and does not block")
        return count

    def _cut(self, blocks: list[tuple[bytes, bool]], done: int) -> None:
        """Count the packets among the bytes that were written, and remove an incomplete block."""
        for block, packet in blocks:
            if len(block) > done:
                break
            done -= len(block)
            self._packets += packet
        if done:
            with contextlib.suppress(OSError, ValueError):  # a pipe keeps what it has
                descriptor = self._out.fileno()
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - done)
