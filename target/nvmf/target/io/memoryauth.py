# SPDX-License-Identifier: BSD-3-Clause
"""DH-HMAC-CHAP of a host that opens memory: the messages of NVMe, in AUTH (spec.memory).

Each message of the host has one answer: the prompt answers OPEN, and OPENED the host's last one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from nvmf.auth import ControllerAuth
from nvmf.auth.response import Parties
from nvmf.spec.auth import MAX_MESSAGE
from nvmf.spec.memory import CAN_AUTHENTICATE, Open
from nvmf.target.model.memory import check_host
from nvmf.target.model.subsystem import Subsystem

T = TypeVar("T")


class Line(Generic[T]):
    """Messages of all peers; step() is called for one in each turn of the event loop.

    Diffie-Hellman may take 20 ms for each, and can be requested without a key: other hosts do not
    wait for all of them.
    """

    def __init__(self, step: Callable[[T], None]) -> None:
        self._step = step
        self._waiting: deque[T] = deque()

    def add(self, message: T) -> None:
        """Add a message."""
        self._waiting.append(message)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        message = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._step(message)


class Exchange:
    """One transaction.  After it has ended, no message of the host belongs to it."""

    def __init__(self, auth: ControllerAuth) -> None:
        self._auth = auth
        self.succeeded = False
        """The host has the key."""
        self.ended = False
        self._violation = ""

    @classmethod
    def begin(cls, subsystem: Subsystem, request: Open) -> Self | None:
        """Return an exchange if the host must authenticate; MemoryRefused if it may not or cannot.

        Keys are looked up when the host begins.
        """
        host = request.hostnqn
        if host not in subsystem.keys or not subsystem.allows(host):
            return None
        check_host(subsystem, host, authenticated=bool(request.flags & CAN_AUTHENTICATE))
        parties = Parties(host, subsystem.nqn)
        return cls(ControllerAuth(parties, lambda: subsystem.keys.get(host), time.monotonic()))

    @property
    def failure(self) -> str:
        """The reason of the failure, as a sentence for the log; "" if there is none."""
        return self._violation or self._auth.failure or ""

    @property
    def success(self) -> str:
        """How the host was authenticated: hash, group, one way or both ways."""
        return self._auth.success

    def step(self, message: bytes) -> bytes | None:
        """Return the answer to a message; None: there is none, and it has ended."""
        if self._proven():  # one way, and the host has been told
            if message:
                self._violation = "a message after DH-HMAC-CHAP_Success1"
                self.ended = True
            else:
                self._succeed()
            return None
        auth = self._auth
        auth.send(message, time.monotonic())
        if self._proven():  # both ways: that was Success2
            self._succeed()
            return None
        answer = None if auth.over else auth.receive(MAX_MESSAGE, time.monotonic())
        self.ended = auth.over
        return answer

    def _proven(self) -> bool:
        return self._auth.authenticated

    def _succeed(self) -> None:
        self.succeeded = self.ended = True
