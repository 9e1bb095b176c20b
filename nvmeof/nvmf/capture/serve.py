# SPDX-License-Identifier: BSD-3-Clause
"""Serves the target of a capture to live hosts, on any device."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import dataclass, field
from typing import Literal

from nvmf import engine
from nvmf.capture.recorded import Answer, RecordedTarget, Session
from nvmf.spec.cm import CmRejectError, CmStatus
from nvmf.spec.fabrics import ConnectCommand
from nvmf.spec.opcodes import AdminOpcode, FabricsType
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.commands.cm import CmLimits, decide

log = logging.getLogger("nvmf.capture")

_QUEUES = 64
_ENTRIES = 1024
_TRANSFER = 1 << 20
_GRACE = 1.0
"""Seconds that a host has to end a connection after its Disconnect was answered."""


@dataclass(eq=False)
class _Connection:
    session: Session
    held: list[engine.Command] = field(default_factory=list)
    """Commands that wait for an event."""


class RecordedServer:
    """An open port; close() it.  Runs on the event loop that makes it."""

    def __init__(
        self,
        recorded: RecordedTarget,
        address: tuple[str, int],
        device: Literal["iwarp", "roce", "system"],
    ) -> None:
        """Listen; raise OSError if that is not possible."""
        self._recorded = recorded
        self._loop = asyncio.get_running_loop()
        self._connections: set[_Connection] = set()
        self._parked: list[engine.ConnectRequest] = []
        self.idle = asyncio.Event()
        """Set when the last of at least one connection has ended."""
        self._channel = engine.EventChannel(device)
        self._listener = self._channel.listen(*address)
        self._target = engine.Target()
        self._target.open_devices(self._listener)
        self._loop.add_reader(self._channel.fileno(), self._events)
        self._loop.add_reader(self._target.fileno(), self._upcalls)

    @property
    def address(self) -> tuple[str, int]:
        """The address and the port."""
        return str(self._listener.address[0]), int(self._listener.address[1])

    def close(self) -> None:
        """Disconnect all hosts, and stop listening."""
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_reader(self._target.fileno())
        self._target.close()
        self._channel.close()

    # ---- connections ----

    def _events(self) -> None:
        while (event := self._channel.get_event()) is not None:
            if isinstance(event, engine.ConnectRequest):
                self._request(event)
            elif isinstance(event, engine.QpairEvent) and event.name not in (
                *("ESTABLISHED", "TIMEWAIT_EXIT", "CONNECT_RESPONSE"),
            ):
                event.qpair.disconnect(peer_left=event.name == "DISCONNECTED")

    def _request(self, event: engine.ConnectRequest) -> None:
        limits = CmLimits(_ENTRIES, _QUEUES)
        try:
            wanted = decide(event.private_data, event.initiator_depth, limits)
            qpair = event.accept(
                self._target,
                reactor=0,
                qid=wanted.qid,
                recv_depth=wanted.recv_depth,
                send_depth=wanted.send_depth,
                in_capsule=self._recorded.in_capsule if wanted.qid else 0,
                max_transfer=_TRANSFER,
                initiator_depth=wanted.initiator_depth,
            )
        except CmRejectError as error:
            log.warning("connection refused: %s", error)
            event.reject(error.encode())
        except OSError as error:
            if error.errno == errno.EAGAIN:
                self._parked.append(event)
                return
            log.warning("connection refused: %s", error)
            event.reject(CmRejectError(CmStatus.NO_RESOURCES, str(error)).encode())
        else:
            qpair.cookie = connection = _Connection(Session())
            self._connections.add(connection)
            self._nudge(qpair)

    def _nudge(self, qpair: engine.Qpair) -> None:
        """Nudge the device, which may have missed a Connect, until the Connect arrives."""
        connection = qpair.cookie
        if connection is not None and not connection.session.subnqn and (pause := qpair.nudge()):
            self._loop.call_later(pause, self._nudge, qpair)

    def _upcalls(self) -> None:
        for upcall in self._target.upcalls():
            if isinstance(upcall, engine.Command):
                self._command(upcall)
            elif isinstance(upcall, engine.Closed):
                self._closed(upcall.qpair)
            elif isinstance(upcall, engine.DeviceReady):
                parked, self._parked = self._parked, []
                for event in parked:
                    self._request(event)

    def _closed(self, qpair: engine.Qpair) -> None:
        connection: _Connection = qpair.cookie
        for command in connection.held:
            command.complete(Status.ABORTED_SQ_DELETION | DNR)
        qpair.cookie = None
        qpair.destroy()
        self._connections.discard(connection)
        if not self._connections:
            self.idle.set()

    # ---- commands ----

    def _command(self, command: engine.Command) -> None:
        connection: _Connection = command.qpair.cookie
        sqe = Sqe.decode(command.sqe)
        fctype = sqe.fctype if sqe.opcode == AdminOpcode.FABRICS else None
        answer = self._recorded.handle(connection.session, sqe, command.data)
        if answer is None:
            connection.held.append(command)
            return
        if fctype == FabricsType.CONNECT and not answer.status:
            wanted = ConnectCommand.of(sqe)
            entries = 0 if wanted.sq_flow_control_disabled else wanted.sqsize + 1
            command.qpair.connected(entries, None)
        _complete(command, answer)
        if fctype == FabricsType.DISCONNECT:
            self._loop.call_later(_GRACE, _leave, command.qpair)


def _complete(command: engine.Command, answer: Answer) -> None:
    low, high = answer.result & 0xFFFFFFFF, answer.result >> 32
    command.complete(answer.status, low, high, answer.data)


def _leave(qpair: engine.Qpair) -> None:
    if qpair.cookie is not None:
        qpair.disconnect()
