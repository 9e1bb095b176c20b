# SPDX-License-Identifier: BSD-3-Clause
"""Stores and namespaces of the engine: the types of nvmf.engine."""

from collections.abc import Iterable
from typing import Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer as SupportsBuffer

from nvmf.engine._target import Target

@final
class Store:
    """The storage of a namespace; raises EngineError if it fails to open."""

    def __init__(
        self,
        kind: Literal["ram", "file", "pmem", "null", "python"],
        *,
        path: str | None = None,
        size: int = 0,
        block_size: int = 512,
        direct: bool | None = None,
        read_only: bool = False,
        persistent: bool = False,
        power_fail_atomic: bool = True,
        calls: int = 0,
        max_bytes: int = 0,
        limit_ms: int = 0,
        physical_block_size: int = 0,
        volatile_write_cache: bool = False,
        deallocate: bool = False,
    ) -> None:
        """The last six are for "python", whose calls take() and answer() pass to this program.

        calls: Maximum calls at a time, 1 to 64; 0: 64.
        max_bytes: Maximum bytes of their data together; 0: 8 MiB. One larger call is allowed.
        limit_ms: Milliseconds after which a command without an answer ends with Internal Error;
            0: 10000.
        """
    @property
    def kind(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def size(self) -> int:
        """Bytes."""
    @property
    def block_size(self) -> int: ...
    @property
    def physical_block_size(self) -> int: ...
    @property
    def volatile_write_cache(self) -> bool: ...
    @property
    def deallocate(self) -> bool: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def direct(self) -> bool: ...
    @property
    def guarantee(self) -> str: ...
    def resize(self, size: int = 0) -> int:
        """Adopt the new size of a backing file, or resize RAM; return the new size in bytes."""
    def flush(self) -> None:
        """Commit written data to stable storage; blocks; must not run concurrently with close().

        EngineError (EIO) on failure.
        """
    @property
    def mapped(self) -> bool:
        """Whether it is memory: read() and write() are possible."""
    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of a store that is memory; EngineError (EIO) if the memory has failed."""
    def write(self, offset: int, data: SupportsBuffer) -> None:
        """Write bytes to a store that is memory, persistently where its guarantee says so.

        EngineError (EIO) if the memory has failed.
        """
    def fileno(self) -> int:
        """Return a descriptor that is readable when take() may return calls ("python" only)."""
    def take(self) -> list[tuple[int, int, int, int, int, bytes | None]]:
        """Return new calls of a "python" store, each of which answer() must end exactly once.

        A call is (number, operation, flags, offset, length, data of a write). Operations: 0 read,
        1 write, 2 flush, 3 write zeroes, 4 deallocate. Flags: 1 Force Unit Access, 2 zeroes may be
        deallocated.
        """
    def answer(
        self, number: int, status: int = 0, error: int = 0, data: SupportsBuffer | None = None
    ) -> bool:
        """End a call; return False if its command has already ended.

        status: NVMe status. error: errno of a failure, for Faulted, or 0. data: of a successful
        read; with a length other than that of the call, the command fails with Internal Error.
        """
    def stop(self) -> None:
        """End every command of a "python" store, now and in future, within 0.1 s."""
    def close(self) -> None:
        """Close the store; EngineError (EBUSY) while a namespace uses it."""

@type_check_only
class NamespaceLatency(TypedDict):
    """Histograms with logarithmic buckets in microseconds, and sums."""

    read: list[int]
    """24 counts: [0] below 1 us, [i] from 2**(i - 1) to below 2**i us, the last for the rest."""
    write: list[int]
    read_ns: int
    """Sum in nanoseconds, for a mean or a Prometheus histogram."""
    write_ns: int

@final
class Namespace:
    """A store with an NSID, on the reactors of one target."""

    def __init__(self, target: Target, nsid: int, store: Store) -> None: ...
    @property
    def nsid(self) -> int: ...
    @property
    def store(self) -> Store: ...
    @property
    def stats(self) -> dict[str, int]:
        """Return counters since creation: successful reads, writes, read_bytes, write_bytes,
        compares, verifies, write_zeroes, deallocates (Dataset Management), copies, copied_bytes;
        flushes requested from the store; errors, media_errors, throttled; checked_bytes of Compare
        and Verify.
        """
    def busy(self) -> list[int]:
        """Return the nanoseconds during which commands were in progress, by reactor."""
    def latency(self) -> NamespaceLatency:
        """Return the latency of successful Reads and Writes; may be called while reactors run.

        Measured from receipt of the capsule to posting of the response, including waits for a limit
        or a buffer.
        """
    def resized(self) -> None: ...
    def limit(
        self,
        *,
        read_iops: int = 0,
        write_iops: int = 0,
        iops: int = 0,
        read_bandwidth: int = 0,
        write_bandwidth: int = 0,
        bandwidth: int = 0,
        burst_ms: int = 100,
    ) -> None:
        """Limit commands and bytes per second, of reads, writes and both; 0: no limit.

        Read, Compare and Verify, and Write and Write Zeroes (no bytes), wait while a limit is
        exceeded, in turn by queue pair.  burst_ms (minimum 10): burst allowed after idle time, as
        milliseconds of each limit.  Takes effect at once, and replaces all previous limits.
        """
    def set_invalid(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Make reads of these blocks fail: (first block, blocks), sorted and disjoint.

        Replaces the previous ranges.  A command that writes such a block is passed up as a Command
        after its execution; complete it once its blocks have been removed from the ranges.
        """
    def gate(self, *, read: int = 0, write: int = 0, flush: int | None = None) -> None:
        """Fail commands of all hosts with a status instead of executing them: see Gates.set."""
    def rearm(self) -> None:
        """Enable a Faulted for the next command that the store fails; no effect if closed."""
    def close(self) -> bool:
        """Free it: before it is added to a table, or after its Retired; else EngineError (EBUSY).

        Return whether its store may be closed now; otherwise a Freed follows when it may be.
        """

@final
class NamespaceTable:
    """Namespaces by NSID, as seen by some hosts; a namespace may be in several tables."""

    def __init__(self, target: Target, max_nsid: int) -> None: ...
    @property
    def max_nsid(self) -> int: ...
    @property
    def users(self) -> int:
        """Queue pairs with this table, including some that are being destroyed."""
    def set(self, nsid: int, namespace: Namespace | None) -> None:
        """Set the namespace of an NSID, replacing any previous one.

        A namespace that is no longer in any table is retired.  EngineError (EBUSY) if namespace is
        retired but has had no Retired yet.
        """
    def close(self) -> None:
        """Free it and retire its namespaces; EngineError (EBUSY) while a queue pair uses it."""

@final
class Gates:
    """Statuses with which I/O commands fail instead of being executed, by NSID.

    Usually there is one object per controller; Qpair.gate() assigns it to each I/O queue, before
    or after its Connect.  Gates have no cost for queue pairs without them.
    """

    def __init__(self, target: Target, max_nsid: int) -> None: ...
    @property
    def max_nsid(self) -> int: ...
    def set(self, nsid: int, *, read: int = 0, write: int = 0, flush: int | None = None) -> None:
        """Set the status (SCT << 8 | SC, with DNR 0x4000) of each group of commands; 0: execute.

        read: Read, Compare, Verify; write: Write, Write Zeroes, Write Uncorrectable, Dataset
        Management; flush: Flush, by default as write.  These are the groups of reservations
        (Base 2.0, 8.19); write protection lets Flush through.  Other commands of I/O queues are
        passed up for the caller to decide.  Both Invalid Namespace | DNR: the namespace is hidden.

        All three take effect at once for commands that have not started; Target.fence() waits for
        the others.  They have precedence over Namespace.gate().  EngineError (EINVAL): no such
        NSID.
        """
    def close(self) -> None:
        """Prevent further changes; gates stay in effect until the last queue pair is destroyed."""
