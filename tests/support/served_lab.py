# SPDX-License-Identifier: BSD-3-Clause
"""The start and the end of a server in this process, for labs."""

from __future__ import annotations

from typing import Self

from nvmf.target.service.server import Server
from nvmf.target.service.starting import Starting


class ServedLab:
    """A server that starts and ends with ``async with``, or with start()."""

    def __init__(self, starting: Starting[Server]) -> None:
        self._starting = starting
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        """The server, after its start."""
        assert self._server is not None
        return self._server

    async def start(self) -> Server:
        self._server = await self._starting
        return self._server

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()
