# SPDX-License-Identifier: BSD-3-Clause
"""The host side of the engine: the types of nvmf.engine."""

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer as SupportsBuffer

@final
class HostDevice:
    """A device for host queues and their memory; it is closed with the last of these."""

    def __init__(
        self,
        kind: Literal["iwarp", "roce", "system"] = "iwarp",
        *,
        remote_keys: Literal["command", "buffer"] = "command",
    ) -> None:
        """remote_keys: memory that controllers can access.

        command: the data of each command, in its direction, until it completes (by a memory window,
        or if the device has none, by a separate registration); buffer: each whole buffer, while it
        is registered.
        """
    @property
    def kind(self) -> str: ...
    @property
    def remote_keys(self) -> str: ...
    def alloc(self, length: int) -> HostMemory:
        """Allocate page-aligned, registered memory."""
    def register(self, buffer: SupportsBuffer) -> HostMemory:
        """Register a writable buffer, which stays exported until the memory is closed."""

@final
class HostMemory:
    """Registered memory, which supports the buffer protocol (memoryview(memory)).

    As a context manager that is left by an exception, it cannot be used from then on, and it is
    freed as soon as no command and no memoryview uses it.
    """

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> HostMemory: ...
    def __exit__(self, *_: object) -> None: ...
    @property
    def address(self) -> int: ...
    def offset_of(self, buffer: SupportsBuffer) -> int:
        """Return the offset of a contiguous buffer in this memory, or -1 if it is not in it."""
    def close(self) -> None:
        """Free it; BufferError if a memoryview of it exists, EngineError (EBUSY) while in use."""

@final
class HostQueue:
    """A connected queue.  Not thread-safe; the submitter also polls it."""

    def __init__(
        self,
        device: HostDevice,
        *,
        traddr: str,
        trsvcid: str = "4420",
        host_traddr: str | None = None,
        qid: int = 0,
        size: int = 32,
        cntlid: int = 0,
        in_capsule: int = 0,
        timeout_ms: int = 10000,
        cancel: int = -1,
    ) -> None:
        """Connect.  Blocks for at most timeout_ms; raises ConnectError.

        cancel: a descriptor that becomes readable to cancel the attempt (ECANCELED).
        """
    @property
    def qid(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def room(self) -> int:
        """Commands that may be outstanding: one less than size, or CRQSIZE if that is less."""
    @property
    def outstanding(self) -> int: ...
    @property
    def reason(self) -> str:
        """The reason for the loss of the connection, or ""."""
    def fileno(self) -> int: ...
    def submit(
        self,
        sqe: SupportsBuffer,
        user: object,
        memory: HostMemory | None = None,
        offset: int = 0,
        length: int = 0,
        to_device: bool = False,
        in_capsule: bool = True,
    ) -> int:
        """Submit a 64-byte command (CID, PSDT and SGL are filled in); return its CID.

        See HostDevice for the memory that the controller can access.

        Raises BlockingIOError if the queue is full, and EngineError (ENOTCONN) after its loss.
        """
    def poll(self, limit: int = 128) -> list[tuple[object, int, int, int]]:
        """Return (user, NVMe status, dw0, dw1) of completed commands, or EngineError (ENOTCONN)."""
    def submit_batch(self, batch: HostBatch, user: object, at_once: int = 0) -> None:
        """Run what has not succeeded of a batch; poll() gives user, with status 0, at its end.

        at_once: commands outstanding at most; 0: the batch's depth. poll() goes on with it, and
        looks for its completions for up to a few milliseconds.
        """
    def pause_batches(self, paused: bool) -> None:
        """Let batches submit nothing, or let them go on with the next poll()."""
    def arm(self) -> None:
        """Make fileno() readable at the next completion; poll again before waiting."""
    def drain(self) -> None:
        """Clear the events of a readable fileno()."""
    def nudge(self) -> float:
        """Work around targets that miss the first message until a further one arrives (nudge.c).

        While waiting for the response to a Connect, call this at once, and again after the
        returned number of seconds, until it returns 0.
        """
    def abandon(self) -> list[object]:
        """Return the users of commands that will never complete, after the connection is lost."""
    def stop_spread(self) -> None:
        """If it is a leg of a spread, let that not use it any longer.

        close() may then run on a different thread than the spread.
        """
    def end_spread(self) -> None:
        """Detach a closed queue that was stopped: what was outstanding has failed."""
    def close(self) -> None:
        """Disconnect and free the queue.  Blocks briefly."""

class HostBatch:
    """Many Reads or Writes of one length, which HostQueue.submit_batch runs.

    It ends when every command has succeeded, or once one has failed and nothing is outstanding;
    submitted again, it runs what has not succeeded.
    """

    def __init__(
        self,
        sqe: SupportsBuffer,
        lbas: SupportsBuffer,
        memory: HostMemory,
        *,
        offset: int,
        length: int,
        to_device: bool = False,
        in_capsule: bool = True,
        depth: int = 128,
    ) -> None:
        """Prepare one command for each LBA.

        Args:
            sqe: 64 bytes; the SLBA, CID, PSDT and SGL are filled in for each command.
            lbas: A contiguous array of unsigned 64-bit numbers, which is copied.
            memory: Where the data is: length bytes for each command in turn, from offset on.
            depth: Commands outstanding at most.

        Raises:
            ValueError: Arguments that do not fit together.
        """
    @property
    def depth(self) -> int: ...
    @property
    def answered(self) -> int:
        """Commands answered so far, those that failed included."""
    @property
    def error(self) -> int:
        """The errno that ended it because a command could not be submitted, or 0."""
    def stop(self) -> None:
        """Submit nothing more: it ends when what is outstanding is answered."""
    def left(self) -> list[tuple[int, int | None]]:
        """(index, NVMe status or None if it was not answered) of what has not succeeded."""
    def succeeded(self, index: int) -> None:
        """Note that a command was run in another way, and is not to be run again."""
    def __len__(self) -> int:
        """Return how many commands it has."""

@final
class HostSpread:
    """The same Writes to several queues, the legs of a mirror, with one call.

    They have Force Unit Access set.  The answers are counted in C: the function that was given with
    a write is called once when every leg has answered, and at once for each leg that fails, while
    one of the queues is polled (or by tell()).  Used by the thread that polls the queues.
    """

    def __init__(
        self,
        legs: int,
        *,
        small: int = 128,
        large: int = 24,
        small_bytes: int = 8192,
        large_bytes: int = 262144,
    ) -> None:
        """Make room for small + large writes under way, of so many bytes at most each."""
    @property
    def buffer(self) -> bytearray:
        """Its memory, to be registered for the device of each queue."""
    @property
    def attached(self) -> int:
        """The legs that have a queue, a set of bits."""
    @property
    def stopped(self) -> int:
        """The legs whose queues were stopped, and not detached yet: a set of bits."""
    @property
    def news(self) -> bool:
        """Whether tell() has something to tell."""
    def attach(
        self,
        leg: int,
        queue: HostQueue,
        memory: HostMemory,
        *,
        nsid: int,
        shift: int,
        most: int,
    ) -> None:
        """Make a queue a leg, until its commands are abandoned or it is closed.

        Args:
            leg: Which one.
            queue: It is a leg of no other spread.
            memory: The buffer, registered for the queue's device; it cannot be closed meanwhile.
            nsid: The namespace to write to.
            shift: A block of it is 1 << shift bytes.
            most: Commands outstanding on the queue at most, besides those of others.
        """
    def write(
        self,
        legs: int,
        offset: int,
        data: SupportsBuffer,
        then: Callable[[int, int], object],
        more: bool = False,
    ) -> int:
        """Write data at an offset, in bytes, on these legs, a set of bits.

        Returns the number of the operation, until it has ended on all legs; or a negative errno,
        and nothing was sent: EAGAIN if there is no room, EINVAL if these legs cannot do it.

        Args:
            legs: Those to write to.
            offset: A multiple of their blocks, as the length is.
            data: It is copied.
            then: Called with the legs that have the data, and those that failed, which may have it
                in part; it may write, and must not raise.
            more: Send it with flush(), or when a queue is polled.
        """
    def write_many(
        self,
        legs: int,
        offsets: SupportsBuffer,
        data: SupportsBuffer,
        then: Callable[[int, int], object],
        more: bool = False,
    ) -> int:
        """As write(), with an array of 64-bit offsets, and data of one length for each in turn."""
    def flush(self) -> None:
        """Send what was written with more."""
    def has(self, op: int) -> int:
        """Return the legs that have the data of an operation so far."""
    def tell(self) -> None:
        """Call the functions of operations that have ended, or failed on a leg.

        A poll of a queue does it; it is needed after a write, and after a queue was closed, if
        there is news.
        """

def bench_cancel() -> None:
    """Make a bench() that runs in a different thread return, with its results so far."""

def bench_live() -> tuple[float, int, int]:
    """Return (seconds, reads, writes) of the bench() in a different thread so far.

    Updated about every 20 ms, and 0 at the start of a run.
    """

def bench_threads(queues: int) -> int:
    """Return the number of threads with which bench() polls this many queues.

    One per queue, but at most the number of processors minus one.
    """

@type_check_only
class BenchPart(TypedDict):
    """Commands of one direction; the latencies are 0 if there were none."""

    ios: int
    bytes: int
    iops: float
    bytes_per_second: float
    min_us: float
    max_us: float
    mean_us: float
    stddev_us: float
    percentiles_us: dict[str, float]
    """Latencies by percentile ("99.9")."""

@type_check_only
class BenchFigures(TypedDict):
    """The result of bench()."""

    ios: int
    bytes: int
    seconds: float
    iops: float
    bytes_per_second: float
    p50_us: float
    p99_us: float
    p999_us: float
    mean_us: float
    cpu_seconds: float
    """Time of the polling threads."""
    queue_min_iops: float
    """IOPS of the slowest queue."""
    queue_max_iops: float
    """IOPS of the fastest queue."""
    read: BenchPart
    write: BenchPart

def bench(
    *,
    traddr: str,
    trsvcid: str,
    subnqn: str,
    rw: str,
    block_size: int,
    queue_depth: int,
    seconds: float,
    queues: int = 1,
    threads: int = 0,
    nsid: int = 1,
    read_percent: int = -1,
    cpu: int = -1,
    kind: Literal["iwarp", "roce", "system"] = "iwarp",
    hostnqn: str | None = None,
    hostid: str | None = None,
    fua: bool = False,
    flush: bool = False,
    ramp: float = 0,
    offset: int = 0,
    size: int = 0,
    commands: int = 0,
    remote_keys: Literal["command", "buffer"] = "command",
    percentiles: Sequence[float] = ...,
) -> BenchFigures:
    """Run a load with the native host path.  Blocks for the duration.

    rw: read, write, randread or randwrite; or a mix, rw (also readwrite) or randrw, of which
    read_percent are reads (-1: 50; invalid for the others).  fua: writes have Force Unit Access.
    flush: each write is followed by a Flush, and its latency is that of both.

    The load uses size bytes from offset on (0: to the end of the namespace), and ends after seconds
    or after commands of each queue (0: no limit). Nothing is counted in the ramp seconds before.

    The polling threads (0: bench_threads()) share the queues, which use as many controllers as
    needed; cpu is the CPU of the first thread, the other threads use the following CPUs.

    Raises ConnectError, or EngineError if a command failed.
    """
