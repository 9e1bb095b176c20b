# SPDX-License-Identifier: BSD-3-Clause
"""A connection of the engine with what the target knows of it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from nvmf.auth.controller import STEP_TIMEOUT
from nvmf.spec.opcodes import AdminOpcode
from nvmf.spec.status import DNR, MORE, Status
from nvmf.target.command.request import Completion
from nvmf.target.commands.core import Core
from nvmf.target.io.turns import Turns
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue

log = logging.getLogger("nvmf.target")

CONNECT_TIMEOUT = 30.0
"""Seconds that a host has for Connect after its connection was accepted."""
DISCONNECT_GRACE = 1.0
"""Seconds that a host has to end a connection after its Disconnect was answered."""
_HELD_UP = 1.0
"""Seconds that a look at a controller may be late.  Beyond that this process or the whole machine
stood still: what hosts have sent meanwhile is in their sockets, and none of them is to blame."""
_KEEP_ALIVE_STEP = 1.0
"""Seconds between two looks at a controller, at least."""


@dataclass(eq=False)
class Connection:
    """A queue pair, its queue, and the commands of it that are not complete yet."""

    queue: Queue
    qpair: Any
    """nvmf.engine.Qpair, whose cookie is this."""
    reactor: int
    outstanding: set[Any] = field(default_factory=set)
    """Commands (nvmf.engine.Command) whose completion comes later."""
    waiting: deque[Any] = field(default_factory=deque)
    """Those that have not been begun (turns.Turns)."""
    timer: asyncio.TimerHandle | None = None
    """Connect timeout, then keep-alive."""
    kato_ms: int = 0
    """The timeout that the timer was set for."""
    auth_timer: asyncio.TimerHandle | None = None
    """Authentication that stalls."""
    closed: bool = False
    host: str | None = None
    """The name that it is counted under (metrics.tally.Hosts), once its host has joined."""
    peer_left: bool = False
    """The connection manager has told that the host disconnected."""

    def cancel_timers(self) -> None:
        """Nothing more is to happen by itself."""
        for timer in (self.timer, self.auth_timer):
            if timer is not None:
                timer.cancel()


class Dispatcher:
    """Runs commands of connections on the core, and what follows from them."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self.core = core
        self.loop = loop
        self._turns = Turns(loop, self._run)
        core.outbox.schedule = lambda: loop.call_soon(self._send)

    def opened(self, connection: Connection) -> None:
        """A connection was accepted: Connect has to follow."""
        log.debug("%s: accepted", connection.queue)
        connection.timer = self.loop.call_later(CONNECT_TIMEOUT, self._no_connect, connection)

    def command(self, connection: Connection, command: Any) -> None:
        """A capsule came up from the engine: run now, or in its turn."""
        self._turns.command(connection, command)

    def _run(self, connection: Connection, command: Any) -> None:
        queue = connection.queue
        before = queue.controller
        state = before.csts if before is not None else None
        completion = self.core.handle(queue, command.sqe, command.data, self.loop.time(), command)
        if completion is None:
            connection.outstanding.add(command)
        else:
            # Before Connect there is no error log that more could be read in.
            complete(command, completion, more=queue.controller is not None)
        controller = queue.controller
        if controller is None:
            return
        if before is None:
            self._joined(connection, controller)
        elif controller.csts != state:
            log.info("%s: CSTS is now %s", queue, _state(controller))
        if queue is controller.admin and controller.kato_ms != connection.kato_ms:
            self._set_timer(connection, controller)
        self._watch_authentication(connection)
        if queue.leaving:
            self.loop.call_later(DISCONNECT_GRACE, _leave, connection)

    def _send(self) -> None:
        for controller in self.core.outbox.take():
            self._flush(controller)

    def _flush(self, controller: Controller) -> None:
        """Complete the commands that had stayed outstanding and have ended."""
        for request, completion in controller.take():
            command: Any = request.token
            connection: Connection | None = command.qpair.cookie
            if connection is not None and command in connection.outstanding:
                connection.outstanding.discard(command)
                queue, failed = connection.queue, bool(completion.status)
                # That an event request ends without an event is no error.
                if queue.qid == 0 and request.sqe.opcode == AdminOpcode.ASYNC_EVENT_REQUEST:
                    failed = False
                if failed:
                    controller.record_error(queue, request.sqe, completion.status)
                complete(command, completion, more=failed)

    def closed(self, connection: Connection, reason: str) -> None:
        """The connection has ended: nothing of it stays.

        Where there is no reason yet, the queue pair does, until forget() is told one.
        """
        queue = connection.queue
        connection.closed = True
        connection.cancel_timers()
        if queue.controller is not None:
            queue.controller.look_for_errors()
        if reason:
            self._tell(connection, reason)
        for request, completion in self.core.closed(queue):
            command: Any = request.token
            connection.outstanding.discard(command)
            complete(command, completion)
        controller = queue.controller
        if controller is not None and queue is controller.admin:
            log.debug("%s: gone", controller)
        self.drop(connection)
        if reason:
            self._destroy(connection)

    def forget(self, connection: Connection, reason: str) -> None:
        """Why a connection that closed without a reason has ended."""
        self._tell(connection, reason)
        self._destroy(connection)

    def _tell(self, connection: Connection, reason: str) -> None:
        stats = connection.qpair.stats
        log.info(
            "%s: closed%s: %s (%d commands, %d errors, %d malformed, %d bytes read, %d written)",
            connection.queue,
            "" if connection.queue.controller is not None else " before Connect",
            reason,
            *(
                stats.get(name, 0)
                for name in ("commands", "errors", "malformed", "read_bytes", "write_bytes")
            ),
        )

    def _destroy(self, connection: Connection) -> None:
        connection.qpair.cookie = None
        connection.qpair.destroy()
        controller = connection.queue.controller
        if controller is not None:
            self.core.tidy(controller.subsystem)

    def drop(self, connection: Connection) -> None:
        """End what is outstanding, and what was not begun; nobody hears of it."""
        for command in (*connection.outstanding, *connection.waiting):
            complete(command, Completion(status=Status.ABORTED_SQ_DELETION | DNR))
        connection.outstanding.clear()
        connection.waiting.clear()

    # ---- after Connect ----

    def _joined(self, connection: Connection, controller: Controller) -> None:
        queue = connection.queue
        connection.host = self.core.tally.hosts.joined(controller.hostnqn)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if queue.qid == 0:
            log.info("%s: connected, keep-alive %d ms", queue, controller.kato_ms)
        else:
            log.info("%s: connected, %d entries", queue, queue.sq_size)

    def _no_connect(self, connection: Connection) -> None:
        log.warning("%s: no Connect within %g s", connection.queue, CONNECT_TIMEOUT)
        connection.qpair.disconnect()

    def _watch_authentication(self, connection: Connection) -> None:
        """End the connection where the next message does not come in time."""
        auth = connection.queue.auth
        wanted = auth.deadline if auth is not None else None
        timer = connection.auth_timer
        if (timer.when() if timer is not None else None) == wanted:
            return
        if timer is not None:
            timer.cancel()
            connection.auth_timer = None
        if wanted is not None:
            connection.auth_timer = self.loop.call_at(wanted, self._stalled, connection)

    def _stalled(self, connection: Connection) -> None:
        connection.auth_timer = None
        if connection.closed:
            return
        auth = connection.queue.auth
        assert auth is not None
        self.core.tally.events.authentication_failures += 1
        log.warning(
            "%s: authentication failed: nothing heard for %g s in the place of %s: disconnecting",
            connection.queue,
            STEP_TIMEOUT,
            auth.state.value,
        )
        connection.qpair.disconnect()

    def _set_timer(self, connection: Connection, controller: Controller) -> None:
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        connection.kato_ms = controller.kato_ms
        left = controller.keep_alive_left(self.loop.time())
        if left is not None:
            wait = max(left, _KEEP_ALIVE_STEP)
            connection.timer = self.loop.call_later(wait, self._look, connection, controller)

    def _look(self, connection: Connection, controller: Controller) -> None:
        if connection.closed:
            return
        controller.look_for_errors()  # the engine does not wake Python for each
        # A host that authenticates may reckon for longer than its keep-alive timeout.
        if controller.heard(self.loop.time()) or connection.queue.locked:
            self._set_timer(connection, controller)
            return
        timer = connection.timer
        if timer is not None and self.loop.time() - timer.when() > _HELD_UP:
            log.debug("%s: nothing heard, but the target itself stood still", controller)
            controller.last_seen = self.loop.time()
            self._set_timer(connection, controller)
            return
        log.warning(
            "%s: nothing heard for %d ms: disconnecting", connection.queue, controller.kato_ms
        )
        connection.timer = None
        self.core.tally.events.keep_alive_timeouts += 1
        controller.fail()


def complete(command: Any, completion: Completion, *, more: bool = False) -> None:
    """Give a completion to the engine; what it says against it concerns this command alone.

    more: the error log has an entry of it, if it failed.
    """
    status = completion.status | MORE if more and completion.status else completion.status
    try:
        command.complete(status, completion.dw0, completion.dw1, completion.data)
    except Exception:
        log.exception("a command could not be completed")


def _leave(connection: Connection) -> None:
    if not connection.closed:
        connection.qpair.disconnect()


def _state(controller: Controller) -> str:
    csts = controller.csts
    if csts.cfs:
        return f"fatal (CC was {controller.cc.encode():#x})"
    if csts.shst:
        return "shut down"
    return "ready" if csts.rdy else "not ready"
