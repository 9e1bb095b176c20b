# SPDX-License-Identifier: BSD-3-Clause
"""The announcement of the discovery service on the local network, as currently configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nvmf.config.services import MdnsConfig

if TYPE_CHECKING:
    from nvmf.spec.dnssd import Protocol
    from nvmf.target.commands.discovery import Port
    from nvmf.target.service.mdns import Announcer


class Announcing:
    """At most one announcer, replaced when its configuration changes.

    transports: returns the transports of the system's RDMA devices (nvmf.engine.list_devices()).
    """

    def __init__(self, nqn: str, transports: Callable[[], Iterable[str]]) -> None:
        self._nqn = nqn
        self._transports = transports
        self._announcer: Announcer | None = None

    async def configure(self, config: MdnsConfig) -> None:
        """Apply the configuration; an existing announcement is withdrawn first."""
        await self.close()
        if config.enabled:
            from nvmf.target.service.mdns import Announcer, system_protocol

            def system() -> Protocol | None:
                return system_protocol(self._transports())

            self._announcer = Announcer(config.name, self._nqn, system)

    def follow(self, ports: Iterable[Port]) -> None:
        """Announce these ports, and no others."""
        if self._announcer is not None:
            self._announcer.follow(ports)

    async def close(self) -> None:
        """Withdraw any announcement; bounded in time."""
        announcer, self._announcer = self._announcer, None
        if announcer is not None:
            await announcer.close()
