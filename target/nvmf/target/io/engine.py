# SPDX-License-Identifier: BSD-3-Clause
"""Protocols for the engine as this room uses it: nvmf.engine, or a test's substitute for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from nvmf.target.command.engine import (
    Address,
    EngineGates,
    EngineNamespace,
    EngineTable,
    Own,
    QueueHandle,
    StoreFacts,
)

if TYPE_CHECKING:
    from nvmf import engine
    from nvmf.target.io.connection import Connection
    from nvmf.target.io.pystore import Data


Kind: TypeAlias = Literal["iwarp", "roce", "system"]
"""A kind of devices."""


class Store(StoreFacts, Protocol):
    """An open store (nvmf.engine.Store)."""

    @property
    def guarantee(self) -> str: ...
    def resize(self, size: int = 0, /) -> int: ...
    def close(self) -> None: ...

    # of a store in Python:

    def fileno(self) -> int: ...
    def take(self) -> Sequence[tuple[int, int, int, int, int, bytes | None]]: ...
    def answer(self, number: int, status: int, error: int, data: Data | None, /) -> bool: ...
    def stop(self) -> None: ...


class Qpair(QueueHandle, Protocol):
    """A queue pair (nvmf.engine.Qpair)."""

    cookie: Connection | None

    @property
    def device(self) -> str | None: ...
    def disconnect(self, *, peer_left: bool = False) -> None: ...
    def nudge(self) -> float: ...
    def destroy(self) -> None: ...


class Listener(Protocol):
    """A listener (nvmf.engine.Listener)."""

    @property
    def address(self) -> Address: ...
    @property
    def device(self) -> str | None: ...
    def close(self) -> None: ...


class ListenerEvent(Protocol):
    """An event of a listener (nvmf.engine.ListenerEvent)."""

    @property
    def listener(self) -> Listener: ...
    @property
    def name(self) -> str: ...


class QpairEvent(Protocol):
    """An event of a connection (nvmf.engine.QpairEvent)."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def name(self) -> str: ...


class ConnectRequest(Protocol):
    """A connection request (nvmf.engine.ConnectRequest)."""

    @property
    def private_data(self) -> bytes: ...
    @property
    def gone(self) -> bool: ...
    @property
    def initiator_depth(self) -> int: ...
    @property
    def peer(self) -> Address: ...
    @property
    def local(self) -> Address: ...
    @property
    def device(self) -> str | None: ...
    def accept(
        self,
        target: Own,
        *,
        reactor: int,
        qid: int,
        recv_depth: int,
        send_depth: int,
        in_capsule: int,
        max_transfer: int,
        initiator_depth: int,
    ) -> Qpair: ...
    def accept_memory(
        self, server: Own, *, depth: int, private_data: bytes
    ) -> MemoryConnection: ...
    def reject(self, private_data: bytes, /) -> None: ...


class MemoryConnection(Protocol):
    """A memory connection (nvmf.engine.MemoryConnection)."""

    cookie: object

    @property
    def peer(self) -> Address: ...
    @property
    def local(self) -> Address: ...
    @property
    def device(self) -> str | None: ...
    @property
    def counts(self) -> dict[str, int]: ...
    def grant(self, store: Own, length: int, write: bool, /) -> tuple[int, int, int]: ...
    def send(self, message: bytes, /) -> None: ...
    def close(self, reason: str, /) -> None: ...
    def free(self) -> None: ...


class MemoryServer(Protocol):
    """The thread for memory connections (nvmf.engine.MemoryServer)."""

    def fileno(self) -> int: ...
    def events(self) -> Sequence[tuple[MemoryConnection, bytes | None, str | None]]: ...
    def close(self) -> None: ...


class MemoryEvent(Protocol):
    """An event of a memory connection (nvmf.engine.MemoryEvent)."""

    @property
    def connection(self) -> MemoryConnection: ...
    @property
    def name(self) -> str: ...


class EventChannel(Protocol):
    """RDMA-CM events (nvmf.engine.EventChannel)."""

    def fileno(self) -> int: ...
    def listen(self, host: str, port: int, /) -> Listener: ...
    def get_event(self) -> object:
        """Return a ConnectRequest, a QpairEvent, a ListenerEvent, or None."""

    def close(self) -> None: ...


class Target(Protocol):
    """Reactors (nvmf.engine.Target)."""

    @property
    def reactors(self) -> int: ...
    def fileno(self) -> int: ...
    def open_devices(self, listener: Own, /) -> None: ...
    def device_gone(self, name: str, kind: Kind = "system", /) -> None: ...
    def upcalls(self) -> Sequence[object]:
        """Return objects of the types Command, Closed, Retired and so on of an Engine."""

    def fence(
        self,
        qpairs: Iterable[Own],
        nsid: int = 0,
        cookie: object = None,
        /,
        *,
        abort: int = 0,
    ) -> None: ...
    @property
    def inject(self) -> Callable[..., int]: ...
    def injected(self, slot: int, /) -> tuple[int, int]: ...
    def end_injection(self, slot: int, /) -> None: ...
    def close(self) -> None: ...


class Command(Protocol):
    """A capsule for Python (nvmf.engine.Command)."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def sqe(self) -> bytes: ...
    @property
    def data(self) -> bytes: ...
    def complete(self, status: int, dw0: int, dw1: int, data: bytes, /) -> None: ...


class Closed(Protocol):
    """A connection has ended (nvmf.engine.Closed)."""

    @property
    def qpair(self) -> Qpair: ...
    @property
    def reason(self) -> str: ...


class OfNamespace(Protocol):
    """A namespace is retired, or its memory is free (nvmf.engine.Retired, Freed)."""

    @property
    def namespace(self) -> EngineNamespace: ...


class DeviceReady(Protocol):
    """A device is prepared (nvmf.engine.DeviceReady)."""

    @property
    def device(self) -> str: ...
    @property
    def error(self) -> str: ...


class Fenced(Protocol):
    """A fence has ended (nvmf.engine.Fenced)."""

    @property
    def cookie(self) -> Callable[[], None]: ...


class Aborted(Protocol):
    """The result of an abort (nvmf.engine.Aborted)."""

    @property
    def aborted(self) -> bool: ...
    @property
    def cookie(self) -> Callable[[bool], None]: ...


class Injected(Protocol):
    """A fault on purpose has made its last hit (nvmf.engine.Injected)."""

    @property
    def number(self) -> int: ...


class Faulted(OfNamespace, Protocol):
    """A store failed a command (nvmf.engine.Faulted)."""

    @property
    def opcode(self) -> int: ...
    @property
    def status(self) -> int: ...
    @property
    def error(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...


class Engine(Protocol):
    """The module nvmf.engine: functions that make objects, and the types of events and upcalls."""

    @property
    def Target(self) -> Callable[..., Target]: ...
    @property
    def Store(self) -> Callable[..., Store]: ...
    @property
    def Namespace(self) -> Callable[..., EngineNamespace]: ...
    @property
    def NamespaceTable(self) -> Callable[..., EngineTable]: ...
    @property
    def Gates(self) -> Callable[..., EngineGates]: ...
    @property
    def EventChannel(self) -> Callable[..., EventChannel]: ...
    @property
    def ConnectRequest(self) -> type[ConnectRequest]: ...
    @property
    def ListenerEvent(self) -> type[ListenerEvent]: ...
    @property
    def QpairEvent(self) -> type[QpairEvent]: ...
    @property
    def MemoryServer(self) -> Callable[..., MemoryServer]: ...
    @property
    def MemoryEvent(self) -> type[MemoryEvent]: ...
    @property
    def Command(self) -> type[Command]: ...
    @property
    def Closed(self) -> type[Closed]: ...
    @property
    def Retired(self) -> type[OfNamespace]: ...
    @property
    def Freed(self) -> type[OfNamespace]: ...
    @property
    def DeviceReady(self) -> type[DeviceReady]: ...
    @property
    def Fenced(self) -> type[Fenced]: ...
    @property
    def Faulted(self) -> type[Faulted]: ...
    @property
    def Aborted(self) -> type[Aborted]: ...
    @property
    def Injected(self) -> type[Injected]: ...
    @property
    def verbs_available(self) -> Callable[[Kind], str | None]: ...
    @property
    def list_devices(self) -> Callable[[Kind], Sequence[Mapping[str, object]]]: ...
    @property
    def set_iwarp_options(self) -> Callable[..., None]: ...
    @property
    def resources(self) -> Callable[[], dict[str, int]]: ...


if TYPE_CHECKING:

    def _satisfied() -> Engine:
        """Let the type checker compare the compiled engine with the protocol."""
        return engine
