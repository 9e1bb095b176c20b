# SPDX-License-Identifier: BSD-3-Clause
"""Remote memory of the engine: the types of nvmf.engine."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer as SupportsBuffer

from nvmf.engine._engine import Address
from nvmf.engine._storage import Store

@final
class MemoryServer:
    """A thread that serves memory connections; fileno() is readable when events() has some."""

    def __init__(self, *, spin_us: int = 200) -> None: ...
    def fileno(self) -> int: ...
    def events(self) -> list[tuple[MemoryConnection, bytes | None, str | None]]:
        """Return (connection, message, None), or (connection, None, reason) once it has ended.

        After the latter, nothing of that peer reaches the store's memory: free() it.
        """
    def close(self) -> None:
        """Stop the thread; EngineError (EBUSY) while there are connections."""

@final
class MemoryConnection:
    """A memory connection of the target."""

    cookie: Any
    @property
    def peer(self) -> Address: ...
    @property
    def local(self) -> Address: ...
    @property
    def device(self) -> str | None: ...
    def grant(self, store: Store, length: int, write: bool) -> tuple[int, int, int]:
        """Register the first bytes of a store for the peer; return key, address, platform bits.

        The store must stay open until the connection has ended.  Blocks on devices that pin
        memory.  EngineError (ENOTSUP): the store is not memory; (ENOTCONN): it has ended.
        """
    def send(self, message: bytes) -> None: ...
    def close(self, reason: str = "closed by the target") -> None:
        """End it: its key becomes invalid, then MemoryServer.events() tells."""
    @property
    def counts(self) -> dict[str, int]:
        """Return persists, persisted_bytes, and errors of requests to persist.

        written_bytes and read_bytes: by RDMA; missing on devices that do not count them."""
    def free(self) -> None:
        """Free it after its end; EngineError (EBUSY) before."""

@final
class MemoryEvent:
    """An event of the connection manager for a memory connection."""

    @property
    def connection(self) -> MemoryConnection: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> int: ...

@type_check_only
class MemoryPart(TypedDict):
    ios: int
    iops: float
    bytes_per_second: float
    mean_us: float
    min_us: float
    max_us: float
    percentiles_us: dict[str, float]

@type_check_only
class MemoryFigures(TypedDict):
    seconds: float
    cpu_seconds: float
    write: MemoryPart
    read: MemoryPart

def memory_bench_cancel() -> None:
    """Make a MemoryClient.bench() in a different thread return, with its results so far."""

@final
class MemoryClient:
    """A memory connection of the host.  Not thread-safe."""

    def __init__(
        self,
        *,
        kind: Literal["iwarp", "roce", "system"] = "iwarp",
        traddr: str,
        trsvcid: str | int,
        host_traddr: str | None = None,
        depth: int = 16,
        slot_bytes: int = 65536,
        timeout_ms: int = 10000,
        private_data: bytes = b"",
    ) -> None:
        """Connect.  Blocks for at most timeout_ms."""
    @property
    def depth(self) -> int: ...
    @property
    def slot_bytes(self) -> int: ...
    @property
    def reply(self) -> bytes:
        """Private data of the answer."""
    @property
    def flushes(self) -> bool:
        """Whether this host's device has FLUSH and ATOMIC WRITE, which write-flush needs."""
    def opened(self, address: int, key: int, size: int, platform: int = 0) -> None:
        """Set what OPENED granted; platform: what it told of the target."""
    def send(self, message: bytes) -> None: ...
    def message(self) -> bytes:
        """Take the answer to a message; b"" if there is none yet."""
    def fill(self, slot: int, data: SupportsBuffer) -> None: ...
    def content(self, slot: int, length: int) -> bytes: ...
    def tail_at(self, offset: int) -> None:
        """Set the offset of the tail word, a multiple of 8; until then, the end of the range."""
    def word(self, slot: int, value: bytes) -> None:
        """Set the 8 bytes that write-flush-tail writes to the tail word with a slot."""
    def begin(self, slot: int, method: str, offset: int, length: int) -> None:
        """Begin an operation with a slot that has no other.

        method: write-read, write-flush, write-flush-tail (the same, and the tail word behind it),
        write-send, floor (for measurements: not persistent), or read.
        """
    def poll(self) -> list[tuple[int, int]]:
        """Return (slot, status) of operations that have ended; EngineError (ENOTCONN)."""
    def fileno(self) -> int: ...
    def arm(self) -> None:
        """Make fileno() readable at the next completion; poll again before waiting."""
    def drain(self) -> None: ...
    def bench(
        self,
        *,
        method: str,
        size: int,
        depth: int = 1,
        seconds: float = 1,
        read_percent: int = 0,
        percentiles: Sequence[float] = ...,
        also: Sequence[MemoryClient] = (),
        sleeps: bool = False,
    ) -> MemoryFigures:
        """Run a load; blocks.  What is not read overwrites the range.

        also: other connections, at most 14: each operation is done on all of them at the same time,
        and ends when all have answered. sleeps: do not poll all the time, since there are more
        processes than processors.
        """
    def close(self) -> None: ...
