# SPDX-License-Identifier: BSD-3-Clause
"""Files that an administrator names (configuration, keys), read without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.threads import Threads

T = TypeVar("T")

READ_TIMEOUT = 10.0
"""Seconds that reading may take: whoever waits for it may hold up other changes."""
_READS_AT_ONCE = 4


class Files:
    """Threads that read such files, and a limit of time for each."""

    def __init__(self) -> None:
        self._threads = Threads("files", _READS_AT_ONCE)

    async def read(self, work: Callable[[], T], what: str) -> T:
        """Return the result of work, or raise its exception.

        Raises:
            ServerError: It takes longer than READ_TIMEOUT; what names the files.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await self._threads.run(work)
        except TimeoutError:
            raise ServerError(
                f"{what} could not be read within {READ_TIMEOUT:g} s: see whether the file system "
                "answers, then try again"
            ) from None
