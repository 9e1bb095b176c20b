# SPDX-License-Identifier: BSD-3-Clause
"""The connections of a target: accepted on the least busy reactor, disconnected, cleaned up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Collection, Iterator

from nvmf.rpc.results import ReactorCounts
from nvmf.spec.cm import CmRejectError, CmRequest, CmStatus
from nvmf.spec.status import StatusError
from nvmf.target.command.engine import Address
from nvmf.target.commands.cm import decide
from nvmf.target.commands.core import Core
from nvmf.target.io.connection import Connection, Dispatcher
from nvmf.target.io.engine import ConnectRequest, Engine, QpairEvent, Target
from nvmf.target.io.ports import OpenPort, where
from nvmf.target.model.queue import Queue

log = logging.getLogger("nvmf.target")

_HARMLESS = {"ESTABLISHED", "TIMEWAIT_EXIT", "CONNECT_RESPONSE"}
_LEFT, _LOST = "the peer disconnected", "the connection was lost"
_STOPPING = "the target is stopping"
_LOST_PATH = "its path is lost, by a fault on purpose (target fault list)"
_GAVE_UP = "the host gave up before its connection was accepted"
_OPENING_GRACE = 2.0
"""Seconds that a connection keeps its place at max_queues, whatever it does: a host connects the
transport of all its queues before it sends Connect on the first."""
_SEARCH_PAUSE = 0.25
"""Seconds after a vain search for a connection that may be given up, before the next one: it takes
milliseconds if there are 10,000, and anyone may send connection requests.
"""
_NAMING_GRACE = 30.0
"""Seconds that the connection manager has to report why a connection ended, if the device did not:
iWARP adapters return the work requests of a queue pair before the event with the reason.  Only the
queue pair is kept that long."""


def _expected(connection: Connection) -> bool:
    """Whether its host has announced the end, by a shutdown of the controller."""
    controller = connection.queue.controller
    return controller is not None and controller.shut_down


class Connections:
    """All connections, from the connection request to the end."""

    def __init__(
        self, engine: Engine, target: Target, core: Core, dispatcher: Dispatcher, *, limit: int
    ) -> None:
        self.quiet = asyncio.Event()
        """Set when the last connection has ended."""
        self.stopping = False
        """Whether new connections are refused."""
        self.refuses: Callable[[Address], bool] = lambda _: False
        """Whether connections to an address are refused, by a fault on purpose."""
        self.outside: Callable[[Address, Address], tuple[Address, Address]] = lambda *both: both
        """The addresses of a connection, peer and local, as its host knows them: see Ports."""
        self._engine = engine
        self._target = target
        self._core = core
        self._dispatcher = dispatcher
        self._limit = limit
        self._connections: dict[Connection, None] = {}
        """The oldest first."""
        self._leaving = 0
        """How many of them were given up."""
        self._search_from = 0.0
        """When a connection that may be given up is searched for again; seconds, monotonic."""
        self._load: list[int] = [0] * target.reactors
        self._accepted = [[0, 0] for _ in self._load]
        """Admin and I/O queues accepted on each reactor since start."""
        self._unnamed: dict[Connection, asyncio.TimerHandle] = {}
        self._parked: list[ConnectRequest] = []
        """Connection requests whose device is being prepared."""

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections)

    def counts(self) -> list[ReactorCounts]:
        """Return the counters of each reactor, with SPDK's names."""
        found: list[ReactorCounts] = [
            {
                "admin_qpairs": admin,
                "io_qpairs": io,
                "current_admin_qpairs": 0,
                "current_io_qpairs": 0,
                "pending_bdev_io": 0,
                "completed_nvme_io": self._core.tally.ended_of(index).get("commands", 0),
            }
            for index, (admin, io) in enumerate(self._accepted)
        ]
        for connection in self._connections:
            counts, stats = found[connection.reactor], connection.qpair.stats
            counts["current_io_qpairs" if connection.queue.qid else "current_admin_qpairs"] += 1
            counts["pending_bdev_io"] += stats.get("outstanding", 0)
            counts["completed_nvme_io"] += stats.get("commands", 0)
        return found

    def event(self, event: object) -> None:
        """Handle an event of a device's event channel."""
        if isinstance(event, self._engine.ConnectRequest):
            self._connect_request(event)
        elif isinstance(event, self._engine.QpairEvent):
            self._qpair_event(event)

    def _qpair_event(self, event: QpairEvent) -> None:
        connection = event.qpair.cookie
        left = event.name == "DISCONNECTED"
        if connection is not None and connection in self._unnamed:
            if left:
                self._name(connection, _LEFT)
        elif event.name not in _HARMLESS:
            if connection is not None:
                connection.peer_left |= left
            event.qpair.disconnect(peer_left=left)

    def closed(self, connection: Connection, reason: str) -> None:
        """Clean up; without a reason, the connection manager may still supply one."""
        self._connections.pop(connection, None)
        self._leaving -= connection.given_up
        self._load[connection.reactor] -= 1
        self._core.tally.connection_ended(
            connection.reactor, connection.host, connection.qpair.stats
        )
        if not reason and (connection.peer_left or _expected(connection)):
            reason = _LEFT
        elif not reason and self.stopping:
            reason = _LOST
        self._dispatcher.closed(connection, reason)
        if not reason:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(_NAMING_GRACE, self._name, connection, _LOST)
            self._unnamed[connection] = timer
        if not self._connections:
            self.quiet.set()

    def _name(self, connection: Connection, reason: str) -> None:
        self._unnamed.pop(connection).cancel()
        self._dispatcher.forget(connection, reason)

    def disconnect(self, port: OpenPort) -> None:
        """Start to disconnect every connection of a port."""
        for connection in self._connections:
            if port.takes(connection.queue.local):
                connection.qpair.disconnect()

    def disconnect_devices(self, names: Collection[str]) -> None:
        """Start to disconnect every connection on these RDMA devices."""
        for connection in self._connections:
            if connection.qpair.device in names:
                connection.qpair.disconnect()

    def device_ready(self, device: str, error: str) -> None:
        """Decide on the requests for a device that is ready, or that failed (error says why)."""
        waited = [event for event in self._parked if event.device == device]
        self._parked = [event for event in self._parked if event.device != device]
        if error and not waited:
            log.warning("%s", error)
        for event in waited:
            if event.gone:
                self._refuse(event, CmRejectError(CmStatus.NO_RESOURCES, _GAVE_UP))
            elif error:
                self._refuse(event, CmRejectError(CmStatus.NO_RESOURCES, error))
            else:
                self._connect_request(event)

    def disconnect_all(self) -> None:
        """Start to disconnect every connection."""
        parked, self._parked = self._parked, []
        for event in parked:
            self._refuse(event, CmRejectError(CmStatus.NO_RESOURCES, _STOPPING))
        for connection in list(self._unnamed):
            self._name(connection, _LOST)
        for connection in self._connections:
            connection.qpair.disconnect()

    def drop_all(self) -> None:
        """Drop connections that have not ended in time; they end with the engine."""
        for connection in self._connections:
            connection.cancel_timers()
            self._dispatcher.drop(connection)
        self._connections.clear()

    def _connect_request(self, event: ConnectRequest) -> None:
        try:
            connection = self._accept(event)
        except CmRejectError as error:
            self._refuse(event, error)
        except Exception as error:
            if getattr(error, "errno", None) == errno.EAGAIN:
                self._parked.append(event)
            else:
                # One of the events after this one may report that the host has given up.
                asyncio.get_running_loop().call_soon(self._engine_refused, event, error)
        else:
            self._connections[connection] = None
            self._core.tally.events.accepted += 1
            self._load[connection.reactor] += 1
            self._accepted[connection.reactor][connection.queue.qid > 0] += 1
            self.quiet.clear()
            self._dispatcher.opened(connection)

    def _engine_refused(self, event: ConnectRequest, error: Exception) -> None:
        why = _GAVE_UP if event.gone else f"the engine cannot: {error}"
        self._refuse(event, CmRejectError(CmStatus.NO_RESOURCES, why))

    def _refuse(self, event: ConnectRequest, error: CmRejectError) -> None:
        self._core.tally.connection_refused(error)
        self._say_refused(event, error)
        event.reject(error.encode())

    def _say_refused(self, event: ConnectRequest, error: CmRejectError) -> None:
        peer = where(self.outside(event.peer, event.local)[0])
        known: dict[str, object] = {"peer": peer}
        with contextlib.suppress(StatusError):
            known["qid"] = CmRequest.decode(event.private_data).qid
        queue = f" queue {known['qid']}" if "qid" in known else ""
        log.warning("%s%s: connection refused: %s", peer, queue, error, extra=known)

    def _make_room(self) -> int:
        """Return the number of further connections, at the expense of one that may be given up.

        Otherwise strangers who send no Connect, or who use the discovery service, which is open to
        all, would keep hosts out.
        """
        free = self._limit - len(self._connections)
        if free > 0:
            return free
        if self._leaving >= self._limit:
            return 0
        if self._leaving + free <= 0:
            now = asyncio.get_running_loop().time()
            if now < self._search_from:
                return 0
            victim, why = self._dispensable(now)
            if victim is None:
                self._search_from = now + _SEARCH_PAUSE
                return 0
            log.warning(
                "%s: disconnected to make room: there are %d connections (max_queues), and it %s",
                victim.queue,
                self._limit,
                why,
            )
            victim.given_up = True
            self._leaving += 1
            victim.qpair.disconnect()
        return 1

    def _dispensable(self, now: float) -> tuple[Connection | None, str]:
        """Return the oldest connection that may be given up, and why; None if there is none."""
        readers: list[Connection] = []
        until = now - _OPENING_GRACE
        for one in self._connections:
            controller = one.queue.controller
            if one.given_up:
                continue
            if one.since > until:
                break
            if controller is None:
                return one, "has not sent Connect"
            if one.queue.locked:
                return one, "has not authenticated"
            if controller.subsystem.discovery:
                readers.append(one)
        too_many = len(readers) > self._limit // 2
        return readers[0] if too_many else None, "is one of many for discovery"

    def _accept(self, event: ConnectRequest) -> Connection:
        if self.stopping:
            raise CmRejectError(CmStatus.NO_RESOURCES, _STOPPING)
        peer, local = self.outside(event.peer, event.local)
        if self.refuses(local):
            raise CmRejectError(CmStatus.NO_RESOURCES, _LOST_PATH)
        asked = event.private_data, event.initiator_depth
        decide(*asked, self._core.cm_limits(1))  # no connection ends for a request that is refused
        wanted = decide(*asked, self._core.cm_limits(self._make_room()))
        mdts, in_capsule = self._core.transfer_limits(wanted.cntlid if wanted.qid else None)
        reactor = min(range(len(self._load)), key=self._load.__getitem__)
        qpair = event.accept(
            self._target,
            reactor=reactor,
            qid=wanted.qid,
            recv_depth=wanted.recv_depth,
            send_depth=wanted.send_depth,
            in_capsule=in_capsule if wanted.qid else 0,
            max_transfer=mdts,
            initiator_depth=wanted.initiator_depth,
        )
        queue = Queue(qpair, wanted.qid, wanted.recv_depth, peer, local)
        since = asyncio.get_running_loop().time()
        connection = qpair.cookie = Connection(queue, qpair, reactor, since)
        return connection
