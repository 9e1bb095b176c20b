# SPDX-License-Identifier: BSD-3-Clause
"""The engine: devices, queue pairs, capsules, buffers, stores, and the I/O command path, in C.

The engine implements mechanism, not policy.  A call returns at once unless its docstring says that
it blocks; blocking calls release the GIL.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer as SupportsBuffer

from nvmf.errors import Error

Address = tuple[str, int]
"""Numeric IPv4 or IPv6 address, and port number."""

class EngineError(Error, OSError):
    """A call of the engine failed: errno, and a message with the attempted operation."""

class ConnectError(EngineError):
    """A host queue failed to connect."""

    cm_event: int
    """The enum rdma_cm_event_type that ended the attempt, or -1."""
    cm_status: int
    reject_sts: int
    """sts of an NVMe-oF reject (1 to 8); 0 if there was none."""
    nvme_status: int

def set_iwarp_options(
    *,
    crc: bool | None = None,
    congestion: str | None = None,
    mpa_revision: int | None = None,
    first_fpdu_delay_us: int | None = None,
    handshake_timeout_ms: int | None = None,
) -> None:
    """Set options of the embedded device, for subsequent connections; congestion "" selects the
    device's default."""

def start_capture(name: str) -> None:
    """Send the packets of the embedded devices of this process to a Unix socket, as pcapng, until
    its reader closes it.

    name: a path, or @ and a name in the abstract name space.  EngineError if nobody listens there,
    or a capture runs (EBUSY).
    """

def verbs_available(kind: Literal["iwarp", "roce", "system"]) -> str | None:
    """Return None if the verbs library loads, otherwise why not."""

def list_devices(kind: Literal["iwarp", "roce", "system"]) -> list[dict[str, Any]]:
    """Return the devices, with the keys
    name, transport, fw_ver, vendor_id, max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_sge,
    max_qp_rd_atom, max_qp_init_rd_atom, and ports: a list of {port, state, max_mtu, active_mtu
    (bytes), link_layer, gids: list[str]}.

    Empty if the library loads but there is no device.  Raises EngineError if it does not load.
    """

def crc32c(data: SupportsBuffer, crc: int = 0) -> int:
    """Return the CRC32C (Castagnoli) of a contiguous buffer; crc continues an earlier one."""

def resources() -> dict[str, int]:
    """Return pd, mr, mw, cq, srq, qp, cm_id: the objects of the embedded device in this process,
    counted as by `rdma resource show` for other devices."""

# ---- target ----

@final
class Target:
    """Reactors and shared resources.  fileno() is readable when upcalls() has something."""

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
        """Open the device of a listener, or every device if it listens on all of them.

        A DeviceReady follows for each device whose registration of memory takes long.  EngineError
        if one fails to open at once.
        """
    def device_gone(self, name: str, kind: Literal["iwarp", "roce", "system"] = "system") -> None:
        """Note that a device was removed; its resources are freed with its last Qpair."""
    def upcalls(
        self,
    ) -> list[
        Command | Closed | Retired | Fenced | Faulted | Aborted | DeviceReady | Freed | Injected
    ]: ...
    def inject(
        self,
        kind: Literal["delay", "hang", "drop", "cut"],
        *,
        opcodes: Iterable[int],
        number: int = 0,
        status: int = 0,
        nsid: int = 0,
        blocks: tuple[int, int] | None = None,
        rate: float = 1.0,
        after: int = 0,
        count: int = 0,
        seed: int = 0,
        bandwidth: int = 0,
        delays: Sequence[int] = (),
    ) -> int:
        """Prepare a fault on purpose, and return its slot, 0 to 31; see Qpair.inject().

        delay: a command is delayed, then runs, or ends with status if that is not 0. hang: it runs
        when the fault has ended. drop: it never runs or ends. cut: its connection ends.

        nsid: 0 means any. blocks: (first, number), None means all commands. rate: probability, up
        to 1. after: number of commands that pass first. count: number of hits (0: no limit); an
        Injected with this number follows the last one. bandwidth: bytes per second, 0: no limit.
        delays: 256 equally likely delays in microseconds. EngineError (ENOSPC) if there are 32.
        """
    def injected(self, slot: int) -> tuple[int, int]:
        """Return the number of commands that a fault concerned, and of hits."""
    def end_injection(self, slot: int) -> None:
        """End a fault.  First remove it from all queue pairs with Qpair.inject()."""
    def fence(
        self, qpairs: Iterable[Qpair], nsid: int = 0, cookie: object = None, *, abort: int = 0
    ) -> None:
        """Wait for commands of these queue pairs in progress on a namespace (0: any); see Fenced.

        Use it after setting a gate: later commands meet the gate, but commands in progress may have
        passed it and may still read or write.  Commands held by the control thread are excluded.
        abort, if not 0, is the status for commands in progress that have not had any effect yet.  A
        host that does not transfer the data of its command delays the fence while it is connected:
        disconnect it after a timeout.
        """
    def close(self) -> None:
        """Disconnect everything and stop the reactors.  Blocks for at most 2 s."""

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
        compares, verifies, write_zeroes, deallocates (Dataset Management); flushes requested from
        the store; errors, media_errors, throttled; checked_bytes of Compare and Verify.
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

@final
class Fenced:
    """All commands of a Target.fence() have ended."""

    @property
    def nsid(self) -> int: ...
    @property
    def cookie(self) -> Any: ...

@final
class Aborted:
    """The result of a Qpair.abort()."""

    @property
    def aborted(self) -> bool:
        """Whether the command ends with Command Abort Requested; False: not found, or too late."""
    @property
    def cookie(self) -> Any: ...

@final
class Command:
    """A capsule passed up by a reactor.  complete() it exactly once."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def sqe(self) -> bytes:
        """The 64 bytes of the command."""
    @property
    def data(self) -> bytes:
        """Data of the command, fetched from the host; b"" if none."""
    def complete(
        self, status: int = 0, dw0: int = 0, dw1: int = 0, data: SupportsBuffer = b""
    ) -> None:
        """Complete with status (SCT << 8 | SC, with DNR 0x4000); data is sent to the host first.

        No effect if the target has been closed.  A Command that is garbage collected before is
        completed with Internal Error.
        """

@final
class Closed:
    """The connection of qpair has ended; there are no further commands of it."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def reason(self) -> str:
        """The reason, or "" if the device does not know it: the connection manager may."""

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
    """The preparation of a device has ended."""

    @property
    def device(self) -> str: ...
    @property
    def error(self) -> str:
        """Error message; empty if the device is ready."""

@final
class Faulted:
    """The store of namespace failed a command.  The next Faulted comes after namespace.rearm()."""

    @property
    def namespace(self) -> Namespace: ...
    @property
    def opcode(self) -> int: ...
    @property
    def status(self) -> int:
        """The status in the response: SCT << 8 | SC, with DNR 0x4000."""
    @property
    def error(self) -> int:
        """The errno of the store, 0 if none."""
    @property
    def offset(self) -> int:
        """Bytes."""
    @property
    def length(self) -> int:
        """Bytes; 0 for a Flush."""

@final
class Injected:
    """A fault on purpose has concerned its last command: see Target.inject()."""

    @property
    def number(self) -> int: ...

@type_check_only
class QpairError(TypedDict):
    """A command that the engine itself failed."""

    when: float
    """Seconds of the monotonic clock."""
    lba: int
    """First LBA of the command; 0 if it has none."""
    nsid: int
    cid: int
    status: int
    """Status with DNR."""
    location: int
    """Byte of the parameter in the command, its bit in bits 10:8; 65535: no parameter."""
    opcode: int

@final
class Qpair:
    """A queue pair of the target."""

    cookie: Any
    """An object of the caller, initially None."""
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
        """Return commands, errors, read_bytes, write_bytes, malformed, waited_for_buffer and
        outstanding."""
    def errors(self, after: int = 0) -> tuple[int, list[QpairError]]:
        """Return commands failed by the engine since Connect, except failed Compare commands.

        The result is their number, and the last 16 of those after number after, the oldest first.
        If destroyed: after, and an empty list.
        """
    def connected(self, sq_size: int, namespaces: NamespaceTable | None) -> None:
        """Note a successful Connect.  sq_size 0: flow control disabled."""
    def gate(self, gates: Gates) -> None:
        """Set the gates of its I/O commands, permanently; EngineError (EBUSY) if already set."""
    def show(self, namespaces: NamespaceTable) -> None:
        """Use these namespaces for this I/O queue from now on; the old table stays in use."""
    def abort(self, cid: int, cookie: object = None) -> None:
        """Abort an I/O command that has not had any effect yet; an Aborted follows."""
    def inject(self, slots: int) -> None:
        """Set the faults for its commands that arrive from now on: bit i for slot i."""
    def enable(self, enabled: bool) -> None: ...
    def disconnect(self, *, peer_left: bool = False) -> None:
        """Disconnect; its Closed follows.  Idempotent.  peer_left: after a DISCONNECTED event."""
    def nudge(self) -> float:
        """Make a siw device look for a missed Connect; return the seconds until the next call, or
        0.0 if no further call is needed.
        """
    def destroy(self) -> None:
        """Free it after its Closed, once all commands are complete, else EngineError (EBUSY)."""

# ---- connection management of the target ----

@final
class EventChannel:
    """RDMA-CM events; fileno() is readable when get_event() has one."""

    def __init__(self, kind: Literal["iwarp", "roce", "system"]) -> None: ...
    def fileno(self) -> int: ...
    def listen(self, host: str, port: int, backlog: int = 128) -> Listener:
        """Listen; raise EngineError (EADDRINUSE, EADDRNOTAVAIL, ...) on failure."""
    @property
    def kind(self) -> str: ...
    def get_event(self) -> ConnectRequest | QpairEvent | MemoryEvent | ListenerEvent | None:
        """Return the next event, acknowledged; None if there is none."""
    def close(self) -> None:
        """Close listeners, and reject pending requests; it is freed with the last of its Qpairs."""

@final
class Listener:
    @property
    def address(self) -> Address: ...
    @property
    def device(self) -> str | None:
        """The name of its device; None if it listens on all devices."""
    def close(self) -> None: ...

@final
class ListenerEvent:
    """An event of a listener: DEVICE_REMOVAL."""

    @property
    def listener(self) -> Listener: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> int: ...

@final
class ConnectRequest:
    """A CM REQ: accept or reject it.  If garbage collected before, it is rejected (sts 6)."""

    @property
    def listener(self) -> Listener: ...
    @property
    def private_data(self) -> bytes: ...
    @property
    def gone(self) -> bool:
        """Whether the peer disconnected before the decision."""
    @property
    def initiator_depth(self) -> int:
        """Maximum RDMA READs that the peer lets us have outstanding."""
    @property
    def responder_resources(self) -> int: ...
    @property
    def peer(self) -> Address: ...
    @property
    def local(self) -> Address: ...
    @property
    def device(self) -> str | None:
        """The device on which it arrived."""
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
        """Accept; raises EngineError on failure, after which the request must still be rejected.

        EAGAIN: its device is being prepared.  Try again after its DeviceReady.
        """
    def accept_memory(
        self, server: MemoryServer, *, depth: int, private_data: bytes
    ) -> MemoryConnection:
        """Accept it as a memory connection; otherwise as accept().

        depth: messages that the peer may have outstanding, 1 to 256.
        """
    def reject(self, private_data: bytes) -> None: ...

@final
class QpairEvent:
    """An event of an accepted connection."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def name(self) -> str:
        """Name of the enum rdma_cm_event_type: ESTABLISHED, DISCONNECTED, DEVICE_REMOVAL, ..."""
    @property
    def status(self) -> int: ...

# ---- remote memory ----

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
        """Whether this host's device has FLUSH, which write-flush needs."""
    def opened(self, address: int, key: int, size: int, platform: int = 0) -> None:
        """Set what OPENED granted; platform: what it told of the target."""
    def send(self, message: bytes) -> None: ...
    def message(self) -> bytes:
        """Take the answer to a message; b"" if there is none yet."""
    def fill(self, slot: int, data: SupportsBuffer) -> None: ...
    def content(self, slot: int, length: int) -> bytes: ...
    def begin(self, slot: int, method: str, offset: int, length: int) -> None:
        """Begin an operation with a slot that has no other.

        method: write-read, write-flush, write-send, floor (for measurements: not persistent), or
        read.
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
    ) -> MemoryFigures:
        """Run a load; blocks.  What is not read overwrites the range."""
    def close(self) -> None: ...

# ---- host ----

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
    """Registered memory, which supports the buffer protocol (memoryview(memory))."""

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
    def poll(self, limit: int = 64) -> list[tuple[object, int, int, int]]:
        """Return (user, NVMe status, dw0, dw1) of completed commands, or EngineError (ENOTCONN)."""
    def submit_batch(self, batch: HostBatch, user: object, at_once: int = 0) -> None:
        """Run what has not succeeded of a batch; poll() gives user, with status 0, at its end.

        at_once: commands outstanding at most; 0: the batch's depth. poll() goes on with it, and
        looks for its completions for up to a millisecond.
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
    remote_keys: Literal["command", "buffer"] = "command",
    percentiles: Sequence[float] = ...,
) -> dict[str, Any]:
    """Run a load with the native host path.  Blocks for the duration.

    rw: read, write, randread or randwrite; or a mix, rw (also readwrite) or randrw, of which
    read_percent are reads (-1: 50; invalid for the others).  fua: writes have Force Unit Access.
    flush: each write is followed by a Flush, and its latency is that of both.

    The polling threads (0: bench_threads()) share the queues, which use as many controllers as
    needed; cpu is the CPU of the first thread, the other threads use the following CPUs.

    Returns ios, bytes, seconds, iops, bytes_per_second, p50_us, p99_us, p999_us, mean_us,
    cpu_seconds (of the polling threads), queue_min_iops and queue_max_iops (of the slowest and the
    fastest queue); and for each of read and write an object with ios, bytes, iops,
    bytes_per_second, min_us, max_us, mean_us, stddev_us and percentiles_us, the latencies by
    percentile ("99.9"), which are 0 if there were no commands.

    Raises ConnectError, or EngineError if a command failed.
    """
