# SPDX-License-Identifier: BSD-3-Clause
"""Files named by an administrator (configuration, keys), read without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from nvmf.target.io.stores import ServerError
from nvmf.target.lasting.threads import Threads

T = TypeVar("T")

READ_TIMEOUT = 10.0
"""Maximum seconds to read a file; other changes may wait meanwhile."""
_READS_AT_ONCE = 4


class Files:
    """Threads that read files, with a time limit for each."""

    def __init__(self) -> None:
        self._threads = Threads("files", _READS_AT_ONCE)

    async def read(self, work: Callable[[], T], what: str) -> T:
        """Return the result of work, or raise its exception.

        Raises:
            ServerError: It takes longer than READ_TIMEOUT; the message has the name in what.
        """
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await self._threads.run(work)
        except TimeoutError:
            raise ServerError(
                f"cannot read {what} within {READ_TIMEOUT:g} s: check whether the file system "
                "responds, then try again"
            ) from None
