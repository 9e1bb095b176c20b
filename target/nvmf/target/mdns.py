# SPDX-License-Identifier: BSD-3-Clause
"""Announces the target's discovery service on the local network (mDNS), a service for each port.

Nothing here keeps a target from serving: what cannot be announced is logged.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable

from zeroconf import Error as ZeroconfError
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from nvmf.mdns import MdnsError, open_mdns, outward_addresses
from nvmf.spec.dnssd import Protocol, service_type, text_record
from nvmf.spec.fabrics import RdmaProvider
from nvmf.target.discovery import Port

log = logging.getLogger("nvmf.target")

CLOSE_TIMEOUT = 0.8
"""Seconds to say goodbye."""
_RETRY = 5.0
"""Seconds until what failed is tried again."""
_TTL = 120
"""Seconds that others remember an announcement (RFC 6762, 10)."""


class Announcer:
    """Announcements that follow the ports.

    name: of this target, for people.  nqn: of its discovery subsystem.  system: the protocol of the
    system's devices, or None where they are of several kinds.
    """

    def __init__(self, name: str, nqn: str, system: Callable[[], Protocol | None]) -> None:
        self._name = name or socket.gethostname().split(".")[0] or "target"
        self._nqn = nqn
        self._system = system
        self._zeroconf: AsyncZeroconf | None = None
        self._services: dict[Port, AsyncServiceInfo] = {}
        self._wanted: list[Port] = []
        self._task: asyncio.Task[None] | None = None
        self._said = ""

    def follow(self, ports: Iterable[Port]) -> None:
        """Announce these ports, and no others any more; it takes a while, and nobody waits."""
        self._wanted = list(ports)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        done: list[Port] | None = None
        while done != self._wanted:
            done = self._wanted
            try:
                await self._announce(done)
            except (MdnsError, OSError, ZeroconfError) as error:
                sentence = str(error) or repr(error)
                if sentence != self._said:
                    log.warning("the discovery service cannot be announced: %s", sentence)
                self._said = sentence
                # A network may come up later.
                await asyncio.sleep(_RETRY)
                done = None
            else:
                self._said = ""

    async def _announce(self, wanted: list[Port]) -> None:
        if self._zeroconf is None:
            self._zeroconf = open_mdns()
        for port in self._services.keys() - set(wanted):
            await self._zeroconf.async_unregister_service(self._services.pop(port))
        for port in wanted:
            if port in self._services:
                continue
            info = self._service(port)
            if info is None:
                continue
            await self._zeroconf.async_register_service(info, allow_name_change=True)
            self._services[port] = info
            log.info("mDNS: %s announces port %d of %s", info.name, port.trsvcid, port.traddr)

    def _service(self, port: Port) -> AsyncServiceInfo | None:
        protocol = self._system() if port.provider != RdmaProvider.IWARP else "iwarp"
        if protocol is None:
            log.warning(
                "mDNS: port %s is not announced: the RDMA devices are of several kinds, and an "
                "announcement is for one",
                port.traddr,
            )
            return None
        addresses = addresses_of(port)
        if not addresses:
            log.info("mDNS: port %s is for this machine alone: not announced", port.traddr)
            return None
        kind = service_type(protocol)
        name = f"{self._name}-{port.portid}"
        return AsyncServiceInfo(
            kind,
            f"{name}.{kind}",
            port=port.trsvcid,
            properties=dict(text_record(protocol, self._nqn)),
            # A name of its own: that of the machine may have other addresses, too.
            server=f"nvmeof-{name}.local.",
            parsed_addresses=addresses,
            host_ttl=_TTL,
            other_ttl=_TTL,
        )

    async def close(self) -> None:
        """Say goodbye."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._zeroconf is None:
            return
        zeroconf, self._zeroconf = self._zeroconf, None
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await zeroconf.async_close()
        except (TimeoutError, OSError, ZeroconfError):
            log.info("mDNS: the network may remember this target for a while")


def addresses_of(port: Port) -> list[str]:
    """The addresses by which others reach a port; none where it is for this machine alone."""
    address = ipaddress.ip_address(port.traddr)
    if address.is_loopback:
        return []
    if not address.is_unspecified:
        return [str(address)]
    return outward_addresses(address.version)


def system_protocol(transports: Iterable[str]) -> Protocol | None:
    """The protocol of devices with these transports (list_devices); None where they differ."""
    protocols: set[Protocol] = {
        "iwarp" if "iwarp" in transport.lower() else "roce" for transport in transports
    }
    return protocols.pop() if len(protocols) == 1 else None
