# SPDX-License-Identifier: BSD-3-Clause
"""The engine: devices, queue pairs, capsules, buffers, stores, and the I/O command path, in C.

Nothing here decides policy.  Every call returns at once unless its docstring says that it blocks;
the blocking ones release the GIL.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer as SupportsBuffer

Address = tuple[str, int]
"""A numeric IPv4 or IPv6 address and a port."""

class EngineError(OSError):
    """A call of the engine failed: errno, and a sentence that says what was tried."""

class ConnectError(EngineError):
    """A host queue could not be connected."""

    cm_event: int
    """enum rdma_cm_event_type that ended it, or -1."""
    cm_status: int
    reject_sts: int
    """sts of an NVMe-oF reject (1 to 8), 0 where there was none."""
    nvme_status: int

def set_iwarp_options(
    *,
    crc: bool | None = None,
    congestion: str | None = None,
    mpa_revision: int | None = None,
    first_fpdu_delay_us: int | None = None,
    handshake_timeout_ms: int | None = None,
) -> None:
    """Change options of the embedded device, for connections made from now on; "" as congestion
    is the device's own choice."""

def verbs_available(kind: Literal["iwarp", "system"]) -> str | None:
    """None where the table loads, else the sentence that says why not."""

def list_devices(kind: Literal["iwarp", "system"]) -> list[dict[str, Any]]:
    """name, transport, fw_ver, vendor_id, max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_sge,
    max_qp_rd_atom, max_qp_init_rd_atom, and ports: a list of {port, state, max_mtu, active_mtu
    (bytes), link_layer, gids: list[str]}.

    Empty where the table loads and there is no device.  Raises EngineError where it does not load.
    """

def resources() -> dict[str, int]:
    """pd, mr, mw, cq, srq, qp, cm_id: what this process holds of the embedded device right now,
    counted as `rdma resource show` counts them of others."""

# ---- target ----

@final
class Target:
    """Reactors and what they share.  fileno() is readable when upcalls() has something."""

    def __init__(
        self,
        *,
        reactors: int = 1,
        cpus: list[int] | None = None,
        spin_us: int = 100,
        buffer_size: int = 131072,
        buffers: int = 128,
    ) -> None: ...
    @property
    def reactors(self) -> int: ...
    def fileno(self) -> int: ...
    def open_devices(self, listener: Listener) -> None:
        """Make the device of a listener ready, or every one that is present.

        A DeviceReady comes for each that registers memory for long; EngineError if one cannot be
        opened at once.
        """
    def device_gone(self, name: str, kind: Literal["iwarp", "system"] = "system") -> None:
        """A device was removed: free what is held of it when its last Qpair is destroyed."""
    def upcalls(
        self,
    ) -> list[Command | Closed | Retired | Fenced | Faulted | Aborted | DeviceReady | Freed]: ...
    def fence(
        self, qpairs: Iterable[Qpair], nsid: int = 0, cookie: object = None, *, abort: int = 0
    ) -> None:
        """Wait for what these queue pairs have begun on a namespace (0: on any): one Fenced comes.

        For after a gate was set: a command that begins later meets it, one that had begun may
        have passed it and still reads or writes.  Commands that stand at the control thread do not
        count.  abort, if not 0, is the status that those of them end with of which nothing was done
        yet.  A host that does not move the data of its command holds its fence up for as long as
        it is connected: give it so much time as there is, then disconnect it.
        """
    def close(self) -> None:
        """Disconnect everything and end the reactors.  Blocks for at most 2 s."""

@final
class Store:
    """What stands behind a namespace; raises EngineError with a sentence where it cannot open."""

    def __init__(
        self,
        kind: Literal["ram", "file", "pmem", "null"],
        *,
        path: str | None = None,
        size: int = 0,
        block_size: int = 512,
        direct: bool | None = None,
        read_only: bool = False,
        persistent: bool = False,
        power_fail_atomic: bool = True,
    ) -> None: ...
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
        """Follow a backing file that has grown or shrunk, or resize RAM: the new size, bytes."""
    def flush(self) -> None:
        """Make stable what was written; blocks, and must not run beside close().

        EngineError (EIO) where it cannot be.
        """
    def close(self) -> None:
        """Close it; EngineError (EBUSY) while a namespace uses it."""

@type_check_only
class NamespaceLatency(TypedDict):
    """Histograms with log2 buckets of microseconds, and the sums."""

    read: list[int]
    """24 counts: [0] under 1 us, [i] from 2**(i - 1) to under 2**i us, the last the rest."""
    write: list[int]
    read_ns: int
    """The sum of all, in nanoseconds: what a mean or a Prometheus histogram needs."""
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
        """Since it was made: reads, writes, read_bytes, write_bytes, compares, verifies,
        write_zeroes, deallocates (Dataset Management) that succeeded; flushes that the store was
        asked for; errors, media_errors, throttled; checked_bytes of Compare and Verify.
        """
    def busy(self) -> list[int]:
        """Nanoseconds that commands on it were under way, of each reactor."""
    def latency(self) -> NamespaceLatency:
        """How long Reads and Writes that succeeded took, read while the reactors run.

        From the capsule's being taken to the response's being posted, waits for a limit or a buffer
        included.
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
        """Commands and bytes a second, of reads, writes and both; 0: no limit.

        Read, Compare and Verify, and Write and Write Zeroes (no bytes) wait while they are over
        one, each queue pair in its turn.  burst_ms (10 at least): so much of each limit may be used
        at once after a rest.  In force at once, and in the place of what was set before.
        """
    def set_invalid(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Let reads of these blocks fail: (first block, blocks), sorted and apart.

        In place of those before.  A command that writes one of them comes as a Command when it is
        done, to be completed once its blocks are no longer among them.
        """
    def gate(self, *, read: int = 0, write: int = 0, flush: int | None = None) -> None:
        """End commands of every host with a status instead of running them: see Gates.set."""
    def rearm(self) -> None:
        """Let the next command that the store fails be told by a Faulted; closed: nothing."""
    def close(self) -> bool:
        """Free it: before it was in a table, or after its Retired; else EngineError (EBUSY).

        Return whether its store may be closed now.  If not, that is so when its Freed comes.
        """

@final
class NamespaceTable:
    """What some hosts of a subsystem see: NSID to namespace; a namespace may be in several."""

    def __init__(self, target: Target, max_nsid: int) -> None: ...
    @property
    def max_nsid(self) -> int: ...
    @property
    def users(self) -> int:
        """Queue pairs, of which some may be at their end."""
    def set(self, nsid: int, namespace: Namespace | None) -> None:
        """Show namespace as nsid, in the place of what was there.

        What is in no table any more is retired.  EngineError (EBUSY) where it is not Retired yet.
        """
    def close(self) -> None:
        """Free it and retire its namespaces; EngineError (EBUSY) while a queue pair uses it."""

@final
class Gates:
    """What I/O commands end with instead of running, by NSID: of one controller, as a rule.

    Qpair.gate() gives it to each I/O queue, before or after its Connect.  A queue pair without
    gates pays nothing for there being any.
    """

    def __init__(self, target: Target, max_nsid: int) -> None: ...
    @property
    def max_nsid(self) -> int: ...
    def set(self, nsid: int, *, read: int = 0, write: int = 0, flush: int | None = None) -> None:
        """The statuses (SCT << 8 | SC, with DNR 0x4000) of each group of commands; 0: they run.

        read: Read, Compare, Verify; write: Write, Write Zeroes, Write Uncorrectable, Dataset
        Management; flush: Flush, as write where it is None.  These are the groups of reservations
        (Base 2.0, 8.19); write protection lets Flush through.  Other commands of I/O queues come up
        and are the caller's to judge.  Both Invalid Namespace | DNR: the namespace is hidden.

        In force at once, all three together, for commands that have not begun; Target.fence() waits
        for those that have.  They come before Namespace.gate().  EngineError (EINVAL): no such
        NSID.
        """
    def close(self) -> None:
        """No more changes; what is set stays in force until its last queue pair is destroyed."""

@final
class Fenced:
    """What a Target.fence() waited for has ended."""

    @property
    def nsid(self) -> int: ...
    @property
    def cookie(self) -> Any: ...

@final
class Aborted:
    """What became of a Qpair.abort()."""

    @property
    def aborted(self) -> bool:
        """The command ends with Command Abort Requested; else it is too late, or there is none."""
    @property
    def cookie(self) -> Any: ...

@final
class Command:
    """A capsule that the reactor handed up.  complete() it exactly once."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def sqe(self) -> bytes:
        """64 bytes."""
    @property
    def data(self) -> bytes:
        """What came with it, fetched from the host; b"" where nothing did."""
    def complete(
        self, status: int = 0, dw0: int = 0, dw1: int = 0, data: SupportsBuffer = b""
    ) -> None:
        """status: SCT << 8 | SC, with DNR 0x4000.  data goes to the host first.

        Nothing happens where the target was closed since.  A Command that is collected without it
        is completed with Internal Error.
        """

@final
class Closed:
    """The connection of qpair has ended; no more commands of it come."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def reason(self) -> str:
        """Why, or "" where the device does not know: the connection manager may."""

@final
class Retired:
    @property
    def namespace(self) -> Namespace: ...

@final
class Freed:
    """No device has the memory of namespace's store any longer: the store may be closed."""

    @property
    def namespace(self) -> Namespace: ...

@final
class DeviceReady:
    """A device that was being made ready can be used, or not."""

    @property
    def device(self) -> str: ...
    @property
    def error(self) -> str:
        """A sentence; empty if it can be used."""

@final
class Faulted:
    """The store of namespace failed a command.  The next Faulted comes after namespace.rearm()."""

    @property
    def namespace(self) -> Namespace: ...
    @property
    def opcode(self) -> int: ...
    @property
    def status(self) -> int:
        """What the host got: SCT << 8 | SC, with DNR 0x4000."""
    @property
    def error(self) -> int:
        """The errno that the store was given, 0 where it was given none."""
    @property
    def offset(self) -> int:
        """Bytes."""
    @property
    def length(self) -> int:
        """Bytes; 0 for a Flush."""

@type_check_only
class QpairError(TypedDict):
    """A command that the engine itself ended with an error."""

    when: float
    """Seconds of the monotonic clock."""
    lba: int
    """The command's first; 0 where it has none."""
    nsid: int
    cid: int
    status: int
    """With DNR."""
    location: int
    """Byte of the parameter in the command, its bit in bits 10:8; 65535: of none."""
    opcode: int

@final
class Qpair:
    """A queue pair of the target."""

    cookie: Any
    """The caller's own, None at first."""
    @property
    def qid(self) -> int: ...
    @property
    def reactor(self) -> int: ...
    @property
    def peer(self) -> Address: ...
    @property
    def device(self) -> str | None:
        """The name of its device."""
    @property
    def stats(self) -> dict[str, int]:
        """commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer, outstanding."""
    def errors(self, after: int = 0) -> tuple[int, list[QpairError]]:
        """Commands that the engine itself ended with an error since Connect, but miscompares.

        How many there were, and of those after so many the last 16 that there are, oldest first.
        Destroyed: after, and none.
        """
    def connected(self, sq_size: int, namespaces: NamespaceTable | None) -> None:
        """sq_size 0: flow control disabled."""
    def gate(self, gates: Gates) -> None:
        """Put its I/O commands under these gates, for life; EngineError (EBUSY): it has others."""
    def show(self, namespaces: NamespaceTable) -> None:
        """Commands of this I/O queue see these from now on; the table before stays in use."""
    def abort(self, cid: int, cookie: object = None) -> None:
        """Take back an I/O command of which nothing was done yet; one Aborted comes."""
    def enable(self, enabled: bool) -> None: ...
    def disconnect(self, *, peer_left: bool = False) -> None:
        """End the connection; its Closed follows.  Idempotent; peer_left: a DISCONNECTED event."""
    def destroy(self) -> None:
        """After its Closed and when all its commands were completed, else EngineError (EBUSY)."""

# ---- connection management of the target ----

@final
class EventChannel:
    """RDMA-CM events; fileno() is readable when get_event() has one."""

    def __init__(self, kind: Literal["iwarp", "system"]) -> None: ...
    def fileno(self) -> int: ...
    def listen(self, host: str, port: int, backlog: int = 128) -> Listener:
        """Raises EngineError (EADDRINUSE, EADDRNOTAVAIL, ...)."""
    @property
    def kind(self) -> str: ...
    def get_event(self) -> ConnectRequest | QpairEvent | ListenerEvent | None:
        """The next event, acknowledged; None where there is none."""
    def close(self) -> None:
        """Close its listeners and reject what waits; it ends itself with the last of its Qpairs."""

@final
class Listener:
    @property
    def address(self) -> Address: ...
    @property
    def device(self) -> str | None:
        """The name of its device; None where it listens on every one."""
    def close(self) -> None: ...

@final
class ListenerEvent:
    """What the connection manager says of a listener: DEVICE_REMOVAL."""

    @property
    def listener(self) -> Listener: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> int: ...

@final
class ConnectRequest:
    """A CM REQ: accept or reject it.  One that is collected undecided is rejected (sts 6)."""

    @property
    def listener(self) -> Listener: ...
    @property
    def private_data(self) -> bytes: ...
    @property
    def gone(self) -> bool:
        """The peer has gone away before it was decided."""
    @property
    def initiator_depth(self) -> int:
        """RDMA READs the peer lets us have outstanding."""
    @property
    def responder_resources(self) -> int: ...
    @property
    def peer(self) -> Address: ...
    @property
    def local(self) -> Address: ...
    @property
    def device(self) -> str | None:
        """The device that it came to."""
    def accept(
        self,
        target: Target,
        *,
        reactor: int,
        qid: int,
        recv_depth: int,
        send_depth: int,
        in_capsule: int,
        max_transfer: int,
        initiator_depth: int,
        responder_resources: int = 0,
    ) -> Qpair:
        """Raises EngineError if it cannot; the request is then still to be rejected.

        EAGAIN: its device is being made ready.  Try again when its DeviceReady has come.
        """
    def reject(self, private_data: bytes) -> None: ...

@final
class QpairEvent:
    """An event of an accepted connection."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def name(self) -> str:
        """As enum rdma_cm_event_type: ESTABLISHED, DISCONNECTED, DEVICE_REMOVAL, ..."""
    @property
    def status(self) -> int: ...

# ---- host ----

@final
class HostDevice:
    """A device that host queues and their memory are made on; it ends with the last of them."""

    def __init__(
        self,
        kind: Literal["iwarp", "system"] = "iwarp",
        *,
        remote_keys: Literal["command", "buffer"] = "command",
    ) -> None:
        """remote_keys: what controllers may reach.

        Of each command, its bytes in its direction and only until it completes (a memory window, or
        where the device has none a registration for each); or of each buffer, all of it for as long
        as it is registered.
        """
    @property
    def kind(self) -> str: ...
    @property
    def remote_keys(self) -> str: ...
    def alloc(self, length: int) -> HostMemory:
        """Memory of the engine's own, page aligned, registered."""
    def register(self, buffer: SupportsBuffer) -> HostMemory:
        """Register a writable buffer, which stays exported until the memory is closed."""

@final
class HostMemory:
    """Registered memory; a buffer itself (memoryview(memory))."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> HostMemory: ...
    def __exit__(self, *_: object) -> None: ...
    @property
    def address(self) -> int: ...
    def offset_of(self, buffer: SupportsBuffer) -> int:
        """Where in this memory a contiguous buffer lies, or -1 where it does not."""
    def close(self) -> None:
        """BufferError while a memoryview of it lives, EngineError (EBUSY) while commands use it."""

@final
class HostQueue:
    """A connected queue.  Not thread-safe, and polled by whoever submits."""

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
        """Connects.  Blocks for at most timeout_ms; raises ConnectError.

        cancel: a descriptor that becomes readable to have it given up (ECANCELED).
        """
    @property
    def qid(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def outstanding(self) -> int: ...
    @property
    def reason(self) -> str:
        """Why the connection was lost, or ""."""
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
        """Submit a 64-byte command (CID, PSDT and SGL are filled in); its CID.

        What of the memory the controller can reach, and until when: see HostDevice.

        Raises BlockingIOError where the queue is full and EngineError (ENOTCONN) where it is lost.
        """
    def poll(self, limit: int = 64) -> list[tuple[object, int, int, int]]:
        """(user, NVMe status, dw0, dw1) of what has completed.  Raises EngineError (ENOTCONN)."""
    def submit_batch(self, batch: HostBatch, user: object, at_once: int = 0) -> None:
        """Run what has not succeeded of a batch; poll() gives user, with status 0, at its end.

        at_once: commands outstanding at most; 0: the batch's depth. poll() goes on with it, and
        looks for its completions for up to a millisecond.
        """
    def pause_batches(self, paused: bool) -> None:
        """Let batches submit nothing, or let them go on with the next poll()."""
    def arm(self) -> None:
        """Make fileno() readable at the next completion; poll once more before waiting."""
    def drain(self) -> None:
        """Take the events of a readable fileno()."""
    def nudge(self) -> float:
        """Called by who waits for the answer to a Connect: at once, and after as many seconds as it
        returned, until that is 0.

        Some targets miss what comes first, until something else comes (nudge.c).
        """
    def abandon(self) -> list[object]:
        """The users of commands that will never complete, once the connection is lost."""
    def close(self) -> None:
        """Disconnect and free.  Blocks briefly."""

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

def bench_cancel() -> None:
    """Make a bench() that runs in another thread return, with what it has done so far."""

def bench_threads(queues: int) -> int:
    """How many threads bench() polls so many queues with.

    One each, but one less than there are processors: others have work to do, too.
    """

def bench(
    *,
    traddr: str,
    trsvcid: str,
    subnqn: str,
    rw: Literal["read", "write", "randread", "randwrite"],
    block_size: int,
    queue_depth: int,
    seconds: float,
    queues: int = 1,
    threads: int = 0,
    nsid: int = 1,
    read_percent: int = -1,
    cpu: int = -1,
    kind: Literal["iwarp", "system"] = "iwarp",
    hostnqn: str | None = None,
    remote_keys: Literal["command", "buffer"] = "command",
) -> dict[str, Any]:
    """Run a load with the native host path.  Blocks for the duration.

    The queues, on as many controllers as it takes, are shared by the polling threads (0:
    bench_threads()); cpu is the first thread's, and the others follow.

    Returns ios, bytes, seconds, iops, bytes_per_second, p50_us, p99_us, p999_us, mean_us,
    cpu_seconds (of the polling threads), queue_min_iops and queue_max_iops (of the slowest and the
    fastest queue).  Raises ConnectError, or EngineError if a command failed.
    """
