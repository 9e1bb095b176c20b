# SPDX-License-Identifier: BSD-3-Clause
"""A connection, and the dispatcher that executes its commands."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from nvmf.auth.controller import STEP_TIMEOUT
from nvmf.spec.opcodes import AdminOpcode
from nvmf.spec.status import DNR, MORE, Status
from nvmf.target.command.request import Completion
from nvmf.target.commands.core import Core
from nvmf.target.io.engine import Command, Qpair
from nvmf.target.io.turns import Turns
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue

log = logging.getLogger("nvmf.target")

CONNECT_TIMEOUT = 30.0
"""Seconds that a host has for Connect after its connection was accepted."""
DISCONNECT_GRACE = 1.0
"""Seconds that a host has to end a connection after its Disconnect was answered."""
_HELD_UP = 1.0
"""Seconds that a check of a controller may be late.  A longer delay means that this process or the
whole machine was stopped: commands sent meanwhile are in the sockets, so hosts are not to blame."""
_KEEP_ALIVE_STEP = 1.0
"""Minimum seconds between two checks of a controller."""


@dataclass(eq=False)
class Connection:
    """A queue pair, its queue, and its incomplete commands."""

    queue: Queue
    qpair: Qpair
    """nvmf.engine.Qpair; its cookie is this object."""
    reactor: int
    since: float
    """When it was accepted; seconds, monotonic."""
    outstanding: set[Command] = field(default_factory=set)
    """Commands (nvmf.engine.Command) that will complete later."""
    waiting: deque[Command] = field(default_factory=deque)
    """Commands not started yet (turns.Turns)."""
    timer: asyncio.TimerHandle | None = None
    """Timer of the Connect timeout, then of the Keep Alive Timeout."""
    kato_ms: int = 0
    """The Keep Alive Timeout for which the timer was set."""
    auth_timer: asyncio.TimerHandle | None = None
    """Timer of the authentication timeout."""
    closed: bool = False
    host: str | None = None
    """The name for its counters (metrics.tally.Hosts), after Connect."""
    peer_left: bool = False
    """Whether the connection manager has reported that the host disconnected."""
    injected: int = 0
    """Slots of the faults on purpose that concern it."""
    given_up: bool = False
    """Whether it was disconnected to make room for a different one."""
    cut: bool = False
    """Whether it was disconnected because its path is lost on purpose."""

    def cancel_timers(self) -> None:
        """Cancel all timers."""
        for timer in (self.timer, self.auth_timer):
            if timer is not None:
                timer.cancel()


class Dispatcher:
    """Executes the commands of connections, and the resulting actions."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self.core = core
        self.loop = loop
        self._turns = Turns(loop, self._run)
        self.joined: Callable[[Connection], None] = lambda _: None
        """Called at each Connect, before its response."""
        core.outbox.schedule = lambda: loop.call_soon(self._send)

    def opened(self, connection: Connection) -> None:
        """Start the Connect timeout of an accepted connection."""
        log.debug("%s: accepted", connection.queue)
        connection.timer = self.loop.call_later(CONNECT_TIMEOUT, self._no_connect, connection)
        self._nudge(connection)

    def _nudge(self, connection: Connection) -> None:
        """Make the device look for a missed Connect, until this is no longer necessary."""
        if connection.queue.controller is None and (pause := connection.qpair.nudge()):
            self.loop.call_later(pause, self._nudge, connection)

    def command(self, connection: Connection, command: Command) -> None:
        """Execute a capsule from the engine now, or in its turn."""
        self._turns.command(connection, command)

    def _run(self, connection: Connection, command: Command) -> None:
        queue = connection.queue
        before = queue.controller
        state = before.csts if before is not None else None
        completion = self.core.handle(queue, command.sqe, command.data, self.loop.time(), command)
        if before is None and queue.controller is not None:
            self.joined(connection)  # before the host has its response, and sends commands
        if completion is None:
            connection.outstanding.add(command)
        else:
            # Before Connect there is no error log that MORE could refer to.
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
        """Complete the outstanding commands that have finished."""
        for request, completion in controller.take():
            command: Command = request.token
            connection = command.qpair.cookie
            if connection is not None and command in connection.outstanding:
                connection.outstanding.discard(command)
                queue, failed = connection.queue, bool(completion.status)
                # An event request that ends without an event is not an error.
                if queue.qid == 0 and request.sqe.opcode == AdminOpcode.ASYNC_EVENT_REQUEST:
                    failed = False
                if failed:
                    controller.record_error(queue, request.sqe, completion.status)
                complete(command, completion, more=failed)

    def closed(self, connection: Connection, reason: str) -> None:
        """Clean up after a connection has ended.

        If reason is empty, the queue pair stays until forget() supplies one.
        """
        queue = connection.queue
        connection.closed = True
        connection.cancel_timers()
        if queue.controller is not None:
            queue.controller.look_for_errors()
        if reason:
            self._tell(connection, reason)
        for request, completion in self.core.closed(queue):
            command: Command = request.token
            connection.outstanding.discard(command)
            complete(command, completion)
        controller = queue.controller
        if controller is not None and queue is controller.admin:
            log.debug("%s: removed", controller)
        self.drop(connection)
        if reason:
            self._destroy(connection)

    def forget(self, connection: Connection, reason: str) -> None:
        """Log why a connection, closed without a reason, ended; destroy its queue pair."""
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
        """Abort outstanding and waiting commands, without a report to the host."""
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
        """Disconnect if the next authentication message does not arrive in time."""
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
        why = f"no message for {STEP_TIMEOUT:g} s in state {auth.state.value}: disconnecting"
        if connection.queue.auth_failed:  # it was counted and logged then, with the reason
            log.info("%s: %s", connection.queue, why)
        else:
            self.core.tally.events.authentication_failures += 1
            log.warning("%s: authentication failed: %s", connection.queue, why)
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
        # A host may need longer than its Keep Alive Timeout to compute its authentication response.
        if controller.heard(self.loop.time()) or connection.queue.locked:
            self._set_timer(connection, controller)
            return
        timer = connection.timer
        if timer is not None and self.loop.time() - timer.when() > _HELD_UP:
            log.debug("%s: no command received, but the target itself was stalled", controller)
            controller.last_seen = self.loop.time()
            self._set_timer(connection, controller)
            return
        log.warning(
            "%s: no command received for %d ms: disconnecting", connection.queue, controller.kato_ms
        )
        connection.timer = None
        self.core.tally.events.keep_alive_timeouts += 1
        controller.fail()


def complete(command: Command, completion: Completion, *, more: bool = False) -> None:
    """Pass a completion to the engine; log any exception, which concerns this command only.

    more: the error log has an entry for the command, if it failed.
    """
    status = completion.status | MORE if more and completion.status else completion.status
    try:
        command.complete(status, completion.dw0, completion.dw1, completion.data)
    except Exception:
        log.exception("cannot complete a command")


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
