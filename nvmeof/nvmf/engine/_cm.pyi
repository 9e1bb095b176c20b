# SPDX-License-Identifier: BSD-3-Clause
"""Connection management of the engine: the types of nvmf.engine."""

from typing import Literal, final

from nvmf.engine._engine import Address
from nvmf.engine._memory import MemoryConnection, MemoryEvent, MemoryServer
from nvmf.engine._target import Qpair, Target

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
