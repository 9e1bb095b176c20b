# SPDX-License-Identifier: BSD-3-Clause
"""A client for programs without asyncio; several threads may share one."""

from __future__ import annotations

import contextlib
import socket as sockets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from nvmf.check import WrongTypeError, checked
from nvmf.json import JSON
from nvmf.rpc import alive
from nvmf.rpc.errors import AnswerError, AnswerLostError, AnswerTimeoutError
from nvmf.rpc.sync_calls import SyncCalls
from nvmf.rpc.wire import ANSWER_MOST, ANSWER_TIMEOUT, Requests, place

T = TypeVar("T")


class SyncClient(SyncCalls):
    """A connection to a running target: one method for each method of the target.

    A request that the target refuses raises RpcError with its code and its sentence.
    """

    def __init__(self, socket: str | PathLike[str] | None, timeout: float) -> None:
        self._requests = Requests(place(socket))
        self._timeout = timeout
        self._lock = threading.Lock()
        self._received = bytearray()
        self._socket: sockets.socket = self._dial()

    def _dial(self) -> sockets.socket:
        pauses = alive.pauses()
        while True:
            try:
                return alive.dial(self._requests.path)
            except BlockingIOError as error:
                pause = next(pauses, None)
                if pause is None:
                    raise self._requests.unreachable(error) from None
                time.sleep(pause)
            except OSError as error:
                raise self._requests.unreachable(error) from None

    def __repr__(self) -> str:
        return f"<SyncClient of the target at {self._requests.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The path of the socket."""
        return self._requests.path

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        with contextlib.suppress(OSError):  # wake a thread that waits for a response
            self._socket.shutdown(sockets.SHUT_RDWR)
        self._socket.close()

    def request(self, method: str, params: Mapping[str, JSON] | None = None) -> JSON:
        """Return the result of a method by its name on the wire, unchecked."""
        with self._lock:
            raw = self._requests.request(method, params or {})
            until = time.monotonic() + self._timeout
            try:
                self._send(raw, until)
                while True:
                    done, result = self._requests.result(self._line(until))
                    if done:
                        return result
            except (AnswerLostError, AnswerTimeoutError):
                raise
            except TimeoutError:
                raise self._requests.late(self._timeout) from None
            except OSError as error:
                raise self._requests.lost(error) from None

    def _send(self, raw: bytes, until: float) -> None:
        rest = memoryview(raw)
        while rest:
            rest = rest[self._patiently(partial(self._socket.send, rest), until) :]

    def _patiently(self, step: Callable[[], T], until: float) -> T:
        """Return the result of a step on the socket, while the target is alive."""
        while True:
            heard = time.monotonic()
            self._socket.settimeout(max(min(until - heard, alive.ASK_AFTER), 1e-3))
            try:
                return step()
            except TimeoutError:
                if time.monotonic() >= until:
                    raise
            if not alive.answers(self.path, self._socket):
                raise self._requests.silent(time.monotonic() - heard)

    def _line(self, until: float) -> bytes:
        """Return the next line, or at the end of the connection what has arrived of it."""
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > ANSWER_MOST:
                raise AnswerError(f"the response has more than {ANSWER_MOST} bytes")
            piece = self._patiently(partial(self._socket.recv, 1 << 18), until)
            if not piece and not self._received:
                raise self._requests.lost()
            if not piece:
                end = len(self._received)
                break
            self._received += piece
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _call(self, method: str, kind: type[T], params: Mapping[str, JSON]) -> T:
        result = self.request(method, params)
        try:
            return checked(kind, result)
        except WrongTypeError as error:
            raise AnswerError(f"unexpected response to {method}: {error}") from None


def connect(
    socket: str | PathLike[str] | None = None, *, timeout: float = ANSWER_TIMEOUT
) -> SyncClient:
    """Connect to a running target; use the result with ``with``, or close() it.

    Args:
        socket: The path of its administration socket; by default the one of this machine's target.
        timeout: Maximum seconds to wait for a response. A target that does not answer other
            connections either is not waited for: AnswerTimeoutError after 15 s.

    Raises:
        NoTargetError: There is no target, or this user has no access.
    """
    return SyncClient(socket, timeout)
