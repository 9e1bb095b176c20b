# SPDX-License-Identifier: BSD-3-Clause
"""The order of commands that arrive faster than the target's thread can execute them.

A command is executed when it arrives.  If a turn of the event loop has taken too long, further
commands wait, in one queue per connection; each queue in turn executes one command.  However many
commands one host sends, a keep-alive of a different host waits for at most one command of each
connection.  Connections that have not authenticated come after all others, with one command per
turn of the loop: Diffie-Hellman may take 20 ms each time, and can be requested without a key.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvmf.target.io.connection import Connection
    from nvmf.target.io.engine import Command

TURN = 0.005
"""Maximum seconds of commands in a turn of the loop, except for the last command."""


class Turns:
    """The queues of waiting commands of all connections; run() executes a command."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run: Callable[[Connection, Command], None]
    ) -> None:
        self._loop = loop
        self._run = run
        self._admitted: deque[Connection] = deque()
        self._locked: deque[Connection] = deque()
        """Connections with waiting commands, separately those that have yet to authenticate."""
        self._until: float | None = None
        """End of the time for commands in this turn of the loop; None before its first command."""

    def command(self, connection: Connection, command: Command) -> None:
        """Execute a command, or queue it."""
        if self._until is None:
            self._until = self._loop.time() + TURN
            self._loop.call_soon(self._next_turn)
        if not connection.waiting and self._loop.time() < self._until:
            self._run(connection, command)
            return
        if not connection.waiting:
            self._line_up(connection)
        connection.waiting.append(command)
        controller = connection.queue.controller
        if controller is not None:  # the target is late, not the host
            controller.last_seen = self._loop.time()

    def _line_up(self, connection: Connection) -> None:
        (self._locked if connection.queue.locked else self._admitted).append(connection)

    def _next_turn(self) -> None:
        """Execute waiting commands, before new ones."""
        self._until = None
        if not self._admitted and not self._locked:
            return
        self._until = self._loop.time() + TURN
        self._loop.call_soon(self._next_turn)
        while self._admitted:
            self._serve(self._admitted)
            if self._loop.time() >= self._until:
                break
        if self._locked:
            self._serve(self._locked)

    def _serve(self, line: deque[Connection]) -> None:
        connection = line.popleft()
        if not connection.waiting:
            return  # the connection was closed
        command = connection.waiting.popleft()
        try:
            self._run(connection, command)
        finally:
            if connection.waiting:
                self._line_up(connection)
