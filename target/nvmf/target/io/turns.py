# SPDX-License-Identifier: BSD-3-Clause
"""Whose command runs next, where more have come than the target's thread can run at once.

A command runs as soon as it comes.  Once a turn of the loop has lasted too long the others wait,
those of each connection in a line of its own, and a line's turn is one command: however much one
host asks for, another's keep-alive waits for no more than a command of each connection.
Connections that have not authenticated come behind all others, one command a turn of the loop:
Diffie-Hellman may take this thread 20 ms each time, and nobody needs a key to ask for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvmf.target.io.connection import Connection

TURN = 0.005
"""Seconds of commands in a turn of the loop, but for the last one."""


class Turns:
    """The lines of all connections; run() runs a command."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run: Callable[[Connection, Any], None]
    ) -> None:
        self._loop = loop
        self._run = run
        self._admitted: deque[Connection] = deque()
        self._locked: deque[Connection] = deque()
        """Connections with a line; those that still have to authenticate apart."""
        self._until: float | None = None
        """When this turn of the loop has lasted long enough; None before its first command."""

    def command(self, connection: Connection, command: Any) -> None:
        """Run a command, or put it in line."""
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
        if controller is not None:  # it is the target that is late
            controller.last_seen = self._loop.time()

    def _line_up(self, connection: Connection) -> None:
        (self._locked if connection.queue.locked else self._admitted).append(connection)

    def _next_turn(self) -> None:
        """Those in line, before what comes now."""
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
            return  # it has closed
        command = connection.waiting.popleft()
        try:
            self._run(connection, command)
        finally:
            if connection.waiting:
                self._line_up(connection)
