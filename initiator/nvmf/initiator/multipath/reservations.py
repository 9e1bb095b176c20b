# SPDX-License-Identifier: BSD-3-Clause
"""Reservations through any path: they belong to a host, not to a controller (Base 2.0, 8.19).

A registration applies to every controller with this host's identifier. Therefore any path can be
used, and a command whose path was lost is sent by a different one; base/repeated.py has the
consequences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from nvmf.initiator.base.errors import ConnectionLost, NvmeError
from nvmf.initiator.base.repeated import Doubtful, RepeatedReservations
from nvmf.initiator.client.namespace import Namespace
from nvmf.spec.status import Status

T = TypeVar("T")


class Run(Protocol):
    """Runs work on the namespace of any path."""

    def __call__(self, work: Callable[[Namespace], Awaitable[T]]) -> Awaitable[T]: ...


class _Commands:
    """Runs commands through the paths."""

    def __init__(self, nsid: int, run: Run) -> None:
        self.nsid = nsid
        self._run = run

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """Raises Doubtful for a conflict after a connection had ended during the command."""
        lost = False

        async def once(path: Namespace) -> None:
            nonlocal lost
            try:
                await path.send(sqe, name, content)
            except ConnectionLost:
                lost = True
                raise

        try:
            await self._run(once)
        except NvmeError as error:
            if lost and error.status == Status.RESERVATION_CONFLICT:
                why = "by a second path, after the first was lost under it"
                raise Doubtful(error, why) from None
            raise

    async def receive(self, sqe: bytes, name: str, length: int) -> bytes:
        found = await self._run(lambda path: path.receive(sqe, name, length))
        assert isinstance(found, bytes)
        return found


class MultipathReservations(RepeatedReservations):
    """The reservation commands of a namespace with several paths."""

    def __init__(self, nsid: int, run: Run, hostid: bytes) -> None:
        """hostid: the host identifier of all paths."""
        super().__init__(_Commands(nsid, run), hostid)
