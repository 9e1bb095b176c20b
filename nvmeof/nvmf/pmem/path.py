# SPDX-License-Identifier: BSD-3-Clause
"""The data path of a memory connection for asyncio: slots, and the operations that have them."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress

from typing_extensions import Buffer

from nvmf import engine

_WHY_LOST = (
    "the target's log has its reason: it also ends the connections of hosts that may no longer use "
    "the memory (revoked, fenced by a reservation, or by its configuration)"
)

_STATUSES = {
    1: "the range is not in what was opened",
    2: "nothing was opened",
    3: "the target's store failed to make the range persistent",
}


class Path:
    """Operations on a connection, each with a slot.  One event loop uses it."""

    def __init__(self, client: engine.MemoryClient, depth: int) -> None:
        self._client = client
        self.depth = depth
        """Maximum number of outstanding operations."""
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(depth):
            self._free.put_nowait(slot)
        self._waiting: dict[int, tuple[asyncio.Future[bytes], int, str]] = {}
        """By slot: the future, the bytes to return, and what failed if it does."""
        self._lost: OSError | None = None
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(client.fileno(), self._readable)

    @property
    def flushes(self) -> bool:
        """Whether this host's device has FLUSH and ATOMIC WRITE, which write-flush needs."""
        return self._client.flushes

    async def close(self) -> None:
        """End the connection; operations in progress fail."""
        if self._closed:
            return
        self._closed = True
        self._fail(OSError(errno.ECANCELED, "the memory connection was closed"))
        await asyncio.to_thread(self._client.close)

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._client.fileno(), self._readable)
            self._poll()

    async def _run(
        self, method: str, offset: int, length: int, data: Buffer | None = None
    ) -> bytes:
        """Do one operation."""
        return await self._post(await self._slot(), method, offset, length, data)

    async def _slot(self) -> int:
        """Wait for a slot."""
        if self._lost is not None:
            raise _again(self._lost)
        slot = await self._free.get()
        self._check_lost(slot)
        return slot

    def _check_lost(self, slot: int) -> None:
        if self._lost is not None:
            self._free.put_nowait(slot)  # for the next waiting operation
            raise _again(self._lost)

    def _post(
        self,
        slot: int,
        method: str,
        offset: int,
        length: int,
        data: Buffer | None = None,
        word: bytes = b"",
    ) -> asyncio.Future[bytes]:
        """Begin an operation with a slot; the future is done when it has ended."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        try:
            if data is not None:
                self._client.fill(slot, data)
            if word:
                self._client.word(slot, word)
            self._client.begin(slot, method, offset, length)
        except OSError as error:
            self._free.put_nowait(slot)
            self._fail(error)
            raise
        self._waiting[slot] = future, length if method == "read" else 0, method
        self._poll()
        return future

    # ---- completions ----

    def _readable(self) -> None:
        with suppress(OSError):
            self._client.drain()
        self._poll()

    def _poll(self) -> None:
        """Take what has completed; the descriptor becomes readable with the next completion."""
        try:
            while self._take():
                pass
            self._client.arm()
            while self._take():
                pass
        except OSError as error:
            self._fail(error)

    def _take(self) -> bool:
        done = self._client.poll()
        for slot, status in done:
            future, length, method = self._waiting.pop(slot)
            if future.done():  # its caller was cancelled
                pass
            elif status:
                why = _STATUSES.get(status, f"status {status}")
                future.set_exception(OSError(errno.EIO, f"{method} failed: {why}"))
            else:
                future.set_result(self._client.content(slot, length) if length else b"")
            self._free.put_nowait(slot)
        return bool(done)

    def _fail(self, error: OSError) -> None:
        if self._lost is not None:
            return
        if error.errno == errno.ENOTCONN:
            error = OSError(error.errno, f"{error.strerror or error}; {_WHY_LOST}")
        self._lost = error
        self._loop.remove_reader(self._client.fileno())
        for slot, (future, _, _) in self._waiting.items():
            if not future.done():
                future.set_exception(_again(error))
            self._free.put_nowait(slot)
        self._waiting.clear()


def _again(error: OSError) -> OSError:
    """Return a copy: each caller has a traceback of its own."""
    return OSError(error.errno, error.strerror)
