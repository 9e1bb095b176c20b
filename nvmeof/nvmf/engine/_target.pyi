# SPDX-License-Identifier: BSD-3-Clause
"""Targets, commands and queue pairs of the engine: the types of nvmf.engine."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict, final, type_check_only

from typing_extensions import Buffer as SupportsBuffer

from nvmf.engine._cm import Listener
from nvmf.engine._engine import Address
from nvmf.engine._storage import Gates, Namespace, NamespaceTable

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
        kind: Literal["delay", "hang", "drop", "cut", "torn"],
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
        when the fault has ended. drop: it never runs or ends. cut: its connection ends. torn: of a
        Write of several blocks only the first ones are written; then it ends with status, or, if
        that is 0, its connection ends without a response.

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
