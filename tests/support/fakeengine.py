# SPDX-License-Identifier: BSD-3-Clause
"""nvmf.engine for tests of the server without it: only a test causes events."""

from __future__ import annotations

import errno
import os
from typing import Any

from nvmf.rpc.results import Latency
from support.faketarget import FakeHandle


class Readable:
    """A queue whose fileno() is readable if it has entries."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.items: list[Any] = []
        self.closed = False

    def put(self, item: Any) -> None:
        self.items.append(item)
        os.eventfd_write(self._fd, 1)

    def take(self) -> list[Any]:
        taken, self.items = self.items, []
        if taken:
            os.eventfd_read(self._fd)
        return taken

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        self.closed = True


class Qpair(FakeHandle):
    """A queue pair that closes at once."""

    def __init__(self, engine: FakeEngine, options: dict[str, Any]) -> None:
        super().__init__()
        self.engine = engine
        self.options = options
        self.cookie: Any = None
        self.device: str | None = None
        self.destroyed = False
        self.gone = False
        self.held = 0

    def nudge(self) -> float:
        return 0.0

    def disconnect(self, *, peer_left: bool = False) -> None:
        if not self.gone:
            self.gone = True
            super().disconnect()
            if self.engine.closing_works:
                self.engine.target.put(self.engine.Closed(self, "disconnected by the target"))

    def destroy(self) -> None:
        assert self.gone
        assert self.held == 0, "commands were not completed"
        self.destroyed = True


class Command:
    def __init__(self, qpair: Qpair, sqe: bytes, data: bytes = b"") -> None:
        self.qpair, self.sqe, self.data = qpair, sqe, data
        self.result: tuple[int, int, int, bytes] | None = None
        qpair.held += 1

    def complete(self, status: int, dw0: int, dw1: int, data: bytes) -> None:
        assert self.result is None, "completed twice"
        self.result = (status, dw0, dw1, data)
        self.qpair.held -= 1


class Closed:
    def __init__(self, qpair: Qpair, reason: str) -> None:
        self.qpair, self.reason = qpair, reason


class Retired:
    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace


class Freed:
    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace


class DeviceReady:
    def __init__(self, device: str, error: str = "") -> None:
        self.device, self.error = device, error


class Fenced:
    def __init__(self, cookie: Any) -> None:
        self.cookie = cookie


class Faulted:
    """An entry for a failed Write of the block at byte 8192: no space was left."""

    opcode, status, error, offset, length = 1, 0x0081, errno.ENOSPC, 8192, 4096

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace


class Injected:
    def __init__(self, number: int) -> None:
        self.number = number


class Aborted:
    def __init__(self, cookie: Any, aborted: bool) -> None:
        self.cookie, self.aborted = cookie, aborted


class Listener:
    def __init__(self, address: tuple[str, int]) -> None:
        self.address, self.closed = address, False
        self.device: str | None = None

    def close(self) -> None:
        self.closed = True


class ConnectRequest:
    """A REQ that records its result."""

    def __init__(self, engine: FakeEngine, private_data: bytes, depth: int = 8) -> None:
        self.engine, self.private_data, self.initiator_depth = engine, private_data, depth
        self.peer, self.local = ("10.0.0.9", 4711), ("127.0.0.1", 4420)
        self.qpair: Qpair | None = None
        self.rejected: bytes | None = None
        self.device, self.gone = "iwarp0", False

    def accept(self, target: Any, **options: Any) -> Qpair:
        if self.engine.accept_error is not None:
            raise self.engine.accept_error
        self.qpair = Qpair(self.engine, options)
        return self.qpair

    def accept_memory(self, server: Any, **options: Any) -> Any:
        raise OSError("this engine has no memory")

    def reject(self, private_data: bytes) -> None:
        self.rejected = private_data


class QpairEvent:
    def __init__(self, qpair: Qpair, name: str) -> None:
        self.qpair, self.name, self.status = qpair, name, 0


class ListenerEvent:
    def __init__(self, listener: Listener, name: str) -> None:
        self.listener, self.name, self.status = listener, name, 0


class MemoryEvent: ...


class Gates:
    """Statuses by NSID."""

    def __init__(self, target: object, max_nsid: int) -> None:
        self.gates: dict[int, tuple[int, int, int]] = {}

    def set(self, nsid: int, *, read: int, write: int, flush: int) -> None:
        self.gates[nsid] = (read, write, flush)

    def close(self) -> None: ...


class FakeEngine:
    """The part of nvmf.engine that the server uses."""

    Command, Closed, Retired, ConnectRequest = Command, Closed, Retired, ConnectRequest
    Fenced, Aborted, Freed, DeviceReady = Fenced, Aborted, Freed, DeviceReady
    ListenerEvent, QpairEvent = ListenerEvent, QpairEvent
    Faulted, Gates, Injected = Faulted, Gates, Injected
    MemoryServer: Any = None
    MemoryEvent: Any = MemoryEvent

    def __init__(self) -> None:
        self.channels: dict[str, Any] = {}
        self.target: Any = None
        self.stores: list[Any] = []
        self.namespaces: list[Any] = []
        self.tables: list[Any] = []
        self.iwarp_options: dict[str, Any] = {}
        self.accept_error: Exception | None = None
        self.store_error: OSError | None = None
        self.store_error_at = 0
        """The number of the store that cannot be opened, from 1."""
        self.resize_error: OSError | None = None
        self.locking = False
        """A file can be opened only once at a time."""
        self.system_devices: list[dict[str, Any]] = []
        self.gone: list[str] = []
        """Removed RDMA devices."""
        self.listen_errors: dict[str, OSError] = {}
        self.closing_works = True
        self.pinned = False
        """Whether a device has the namespaces' memory registered, until a test adds their Freed."""
        engine = self

        class Target(Readable):
            def __init__(self, **options: Any) -> None:
                super().__init__()
                self.options = options
                self.reactors = options["reactors"]
                self.injections: dict[int, dict[str, Any]] = {}
                engine.target = self

            def upcalls(self) -> list[Any]:
                return self.take()

            def open_devices(self, listener: Listener) -> None:
                assert not listener.closed

            def device_gone(self, name: str, kind: str = "system") -> None:
                engine.gone.append(name)

            def fence(
                self, qpairs: Any, nsid: int = 0, cookie: Any = None, *, abort: int = 0
            ) -> None:
                self.put(Fenced(cookie))

            def inject(self, kind: str, **options: Any) -> int:
                slot = min(set(range(32)) - set(self.injections))
                self.injections[slot] = {"kind": kind, **options}
                return slot

            def injected(self, slot: int) -> tuple[int, int]:
                assert slot in self.injections
                return 7, 3

            def end_injection(self, slot: int) -> None:
                del self.injections[slot]

        class Store:
            volatile_write_cache, deallocate, guarantee = True, True, "nothing is kept"

            def __init__(self, kind: str, **options: Any) -> None:
                if engine.store_error is not None:
                    raise engine.store_error
                if len(engine.stores) + 1 == engine.store_error_at:
                    engine.store_error_at = 0
                    raise OSError(errno.ENOENT, "no such file")
                self.path = options["path"]
                if engine.locking and self.path is not None:
                    assert all(s.closed for s in engine.stores if s.path == self.path), "locked"
                self.kind, self.size = kind, options["size"]
                self.block_size = self.physical_block_size = options["block_size"]
                self.read_only, self.closed = options["read_only"], False
                engine.stores.append(self)

            def fileno(self) -> int:
                return -1

            def take(self) -> list[tuple[int, int, int, int, int, bytes | None]]:
                return []

            def answer(self, number: int, status: int, error: int, data: object) -> bool:
                return False

            def stop(self) -> None: ...

            def resize(self, size: int = 0) -> int:
                if engine.resize_error is not None:
                    raise engine.resize_error
                self.size = size
                return size

            def flush(self) -> None:
                assert not self.closed

            def close(self) -> None:
                assert not self.closed
                self.closed = True

        class Namespace:
            def __init__(self, target: Any, nsid: int, store: Any) -> None:
                self.nsid, self.store, self.closed = nsid, store, False
                self.stats: dict[str, int] = {"errors": 1}
                self.rearmed = 0
                engine.namespaces.append(self)

            def limit(self, **limits: int) -> None:
                self.limits = limits

            def gate(self, *, read: int = 0, write: int = 0, flush: int | None = None) -> None:
                self.gates = (read, write, flush)

            def busy(self) -> list[int]:
                return [0]

            def set_invalid(self, ranges: Any) -> None:
                self.invalid = tuple(ranges)

            def latency(self) -> Latency:
                return {"read": [0] * 24, "write": [0] * 24, "read_ns": 0, "write_ns": 0}

            def resized(self) -> None:
                self.blocks = self.store.size // self.store.block_size

            def rearm(self) -> None:
                self.rearmed += 1

            def close(self) -> bool:
                assert not self.store.closed
                self.closed = True
                return not engine.pinned

        class NamespaceTable:
            def __init__(self, target: Any, max_nsid: int) -> None:
                self.entries: dict[int, Any] = {}
                self.users, self.closed = 0, False
                engine.tables.append(self)

            def set(self, nsid: int, namespace: Any) -> None:
                assert not self.closed
                old = self.entries.pop(nsid, None)
                if namespace is not None:
                    assert not namespace.closed
                    self.entries[nsid] = namespace
                if old is not None and not any(old in t.entries.values() for t in engine.tables):
                    engine.target.put(Retired(old))

            def close(self) -> None:
                for nsid in list(self.entries):
                    self.set(nsid, None)
                self.closed = True

        class EventChannel(Readable):
            def __init__(self, kind: str) -> None:
                super().__init__()
                self.listeners: list[Listener] = []
                engine.channels[kind] = self
                self.kind = kind

            def listen(self, host: str, port: int) -> Listener:
                if self.kind in engine.listen_errors:
                    raise engine.listen_errors[self.kind]
                self.listeners.append(Listener((host, port or 40000)))
                if self.kind == "system":
                    self.listeners[-1].device = engine.system_devices[0]["name"]
                return self.listeners[-1]

            def get_event(self) -> Any:
                if not self.items:
                    self.take()
                    return None
                event = self.items.pop(0)
                if not self.items:
                    os.eventfd_read(self.fileno())
                return event

        self.Target, self.Store, self.Namespace = Target, Store, Namespace
        self.NamespaceTable, self.EventChannel = NamespaceTable, EventChannel

    def set_iwarp_options(self, **options: Any) -> None:
        self.iwarp_options = options

    def resources(self) -> dict[str, int]:
        return {"qp": 0}

    def verbs_available(self, kind: str) -> str | None:
        return None

    def list_devices(self, kind: str) -> list[dict[str, Any]]:
        return self.system_devices if kind == "system" else [{"name": "iwarp"}]


def in_use() -> OSError:
    """Return the error of listening on a port in use."""
    return OSError(errno.EADDRINUSE, "cannot listen on 127.0.0.1:0: in use")
