# SPDX-License-Identifier: BSD-3-Clause
"""A client on asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from nvmf.check import WrongTypeError, checked
from nvmf.json import JSON
from nvmf.rpc import alive
from nvmf.rpc.calls import Calls
from nvmf.rpc.errors import AnswerError, AnswerLostError, AnswerTimeoutError
from nvmf.rpc.wire import ANSWER_MOST, ANSWER_TIMEOUT, Requests, place

T = TypeVar("T")


class Client(Calls):
    """A connection to a running target: one method for each method of the target.

    Several tasks may share it; their requests wait for each other. A request that the target
    refuses raises RpcError with its code and its sentence.
    """

    def __init__(
        self,
        requests: Requests,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        timeout: float,
    ) -> None:
        self._requests = requests
        self._reader, self._writer = streams
        self._timeout = timeout
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Client of the target at {self._requests.path}>"

    @property
    def path(self) -> Path:
        """The path of the socket."""
        return self._requests.path

    async def close(self) -> None:
        """Close the connection; a second call does nothing."""
        transport = self._writer.transport
        if transport.get_write_buffer_size():  # a request that the target has not read
            transport.abort()
        transport.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def request(self, method: str, params: Mapping[str, JSON] | None = None) -> JSON:
        """Return the result of a method by its name on the wire, unchecked."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout):
                    self._writer.write(self._requests.request(method, params or {}))
                    await self._patiently(self._writer.drain)
                    while True:
                        done, result = self._requests.result(await self._line())
                        if done:
                            return result
            except (AnswerLostError, AnswerTimeoutError):
                raise
            except TimeoutError:
                raise self._requests.late(self._timeout) from None
            except OSError as error:
                raise self._requests.lost(error) from None

    async def _patiently(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a step, which can be repeated, while the target is alive."""
        loop = asyncio.get_running_loop()
        while True:
            heard = loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(alive.ASK_AFTER):
                    return await step()
            if not await _answers(self.path):
                raise self._requests.silent(loop.time() - heard)

    async def _line(self) -> bytes:
        try:
            line = await self._patiently(self._reader.readline)
        except ValueError:
            raise AnswerError(f"the response has more than {ANSWER_MOST} bytes") from None
        if not line:
            raise self._requests.lost()
        return line

    async def _call(self, method: str, kind: type[T], params: Mapping[str, JSON]) -> T:
        result = await self.request(method, params)
        try:
            return checked(kind, result)
        except WrongTypeError as error:
            raise AnswerError(f"unexpected response to {method}: {error}") from None


async def _answers(path: Path) -> bool:
    """Return whether the target is alive, as alive.answers() does."""
    asked: socket.socket | None = None
    try:
        for _ in range(alive.STEPS):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(alive.STEP):
                    asked = asked or alive.ask(path)
                    if asked is None:
                        await asyncio.Event().wait()
                    else:
                        await asyncio.get_running_loop().sock_recv(asked, 1)
                        return True
    except OSError:
        return True
    finally:
        if asked is not None:
            asked.close()
    return False


class Connecting:
    """A client to be connected: await it, or use it with ``async with``, which also closes it."""

    def __init__(self, socket: str | PathLike[str] | None, timeout: float) -> None:
        self._socket = socket
        self._timeout = timeout
        self._client: Client | None = None

    def __await__(self) -> Generator[object, None, Client]:
        return self._connect().__await__()

    async def _connect(self) -> Client:
        requests = Requests(place(self._socket))
        pauses = alive.pauses()
        while True:
            try:
                made = alive.dial(requests.path)
                streams = await asyncio.open_unix_connection(sock=made, limit=ANSWER_MOST)
            except BlockingIOError as error:
                pause = next(pauses, None)
                if pause is None:
                    raise requests.unreachable(error) from None
                await asyncio.sleep(pause)
            except OSError as error:
                raise requests.unreachable(error) from None
            else:
                return Client(requests, streams, self._timeout)

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        assert self._client is not None
        await self._client.close()


def connect(
    socket: str | PathLike[str] | None = None, *, timeout: float = ANSWER_TIMEOUT
) -> Connecting:
    """Connect to a running target: ``async with connect() as rpc: await rpc.subsystems()``.

    Args:
        socket: The path of its administration socket; by default the one of this machine's target.
        timeout: Maximum seconds to wait for a response. A target that does not answer other
            connections either is not waited for: AnswerTimeoutError after 15 s.

    Raises:
        NoTargetError: Awaited: there is no target, or this user has no access.
    """
    return Connecting(socket, timeout)
