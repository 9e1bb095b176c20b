# SPDX-License-Identifier: BSD-3-Clause
"""Reservations through a single controller, which sends commands again after a lost connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvmf.initiator.base.errors import NvmeError
from nvmf.initiator.base.repeated import Doubtful, RepeatedReservations
from nvmf.spec.status import Status

if TYPE_CHECKING:
    from nvmf.initiator.client.namespace import Namespace


class _Commands:
    """Runs commands on a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self.nsid = namespace.nsid
        self._namespace = namespace

    async def send(self, sqe: bytes, name: str, content: bytes) -> None:
        """Raises Doubtful for a conflict after a connection had ended during the command."""
        try:
            await self._namespace.send(sqe, name, content)
        except NvmeError as error:
            if error.repeated and error.status == Status.RESERVATION_CONFLICT:
                why = "when it was sent again, after the connection was lost under it"
                raise Doubtful(error, why) from None
            raise

    async def receive(self, sqe: bytes, name: str, length: int) -> bytes:
        return await self._namespace.receive(sqe, name, length)


class ClientReservations(RepeatedReservations):
    """The reservation commands of a namespace of the client."""

    def __init__(self, namespace: Namespace, hostid: bytes) -> None:
        super().__init__(_Commands(namespace), hostid)
