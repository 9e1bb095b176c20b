# SPDX-License-Identifier: BSD-3-Clause
"""Discovery services that announce themselves on the local network (mDNS)."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from zeroconf import Error as ZeroconfError
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo

from nvmf.initiator.base.transport_id import Embedded, TransportId
from nvmf.mdns import MdnsError, open_mdns
from nvmf.spec.dnssd import TCP_TYPE, UDP_TYPE, parse_text_record, transport_of

__all__ = ["MdnsError", "Service", "browse", "services_of"]

log = logging.getLogger(__name__)

_RESOLVE_MS = 3000
"""Maximum seconds to query the details of one service."""
_EMBEDDED: dict[str, Embedded] = {"iwarp": "iwarp", "roce": "roce"}
"""The embedded devices by the protocol of an announcement."""
_MAX_SERVICES = 1024
"""Maximum names whose details are queried; others are ignored."""


@dataclass(frozen=True, slots=True, order=True)
class Service:
    """One address of a discovery service."""

    name: str
    """The name of the instance, for display."""
    transport: str
    """The transport: rdma or tcp."""
    traddr: str
    trsvcid: str
    nqn: str
    """The NQN of the discovery subsystem."""
    protocol: str
    """The protocol: iwarp, roce, tcp, or rdma from services that do not say which."""

    @property
    def where(self) -> TransportId:
        """Transport ID, with which connect_all() and discover() use a device of the protocol."""
        embedded = _EMBEDDED.get(self.protocol)
        return TransportId(self.traddr, self.trsvcid, self.nqn, embedded=embedded)


async def browse(
    seconds: float,
    *,
    until: Callable[[list[Service]], bool] | None = None,
) -> list[Service]:
    """Return the services announced within seconds, or until enough were found.

    Announcements without usable data are skipped. Raises MdnsError if the network cannot be
    listened to.
    """
    browser = _Browser(until)
    zeroconf = open_mdns()
    try:
        types = [TCP_TYPE, UDP_TYPE]
        listening = AsyncServiceBrowser(zeroconf.zeroconf, types, handlers=[browser.changed])
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await browser.enough.wait()
        finally:
            await listening.async_cancel()
            await browser.close()
    finally:
        await zeroconf.async_close()
    return browser.services


class _Browser:
    """Return the announcements so far."""

    def __init__(self, until: Callable[[list[Service]], bool] | None) -> None:
        self.enough = asyncio.Event()
        self._until = until
        self._overflowed = False
        self._found: dict[str, list[Service]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def services(self) -> list[Service]:
        """Return all found services, in order."""
        return sorted(service for found in self._found.values() for service in found)

    def changed(
        self,
        zeroconf: Zeroconf,
        service_type: str,
        name: str,
        state_change: ServiceStateChange,
    ) -> None:
        """Handle a name that was added, changed or removed."""
        self._forget(name)
        if state_change is ServiceStateChange.Removed:
            return
        if len(self._tasks) >= _MAX_SERVICES:
            if not self._overflowed:
                log.warning("more than %d discovery services announce themselves", _MAX_SERVICES)
            self._overflowed = True
            return
        try:
            info = AsyncServiceInfo(service_type, name)
        except ZeroconfError as error:  # of one pointer; the other records are still used
            log.info("%r is passed over: %s", name, error)
            return
        self._tasks[name] = asyncio.create_task(self._resolve(zeroconf, info))

    async def close(self) -> None:
        """Cancel the queries in progress."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _forget(self, name: str) -> None:
        self._found.pop(name, None)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    async def _resolve(self, zeroconf: Zeroconf, info: AsyncServiceInfo) -> None:
        if not await info.async_request(zeroconf, _RESOLVE_MS):
            log.info("%r: announced, but without details", info.name)
            return
        try:
            self._found[info.name] = services_of(
                info.name.removesuffix(f".{info.type}"),
                info.properties,
                info.parsed_scoped_addresses(),
                info.port,
            )
        except (ValueError, ZeroconfError) as error:
            log.info("%r is passed over: %s", info.name, error)
        if self._until is not None and self._until(self.services):
            self.enough.set()


def services_of(
    name: str,
    record: dict[bytes, bytes | None],
    addresses: Iterable[str],
    port: int | None,
) -> list[Service]:
    """Return an item for each address of an announcement; ValueError if it is invalid."""
    protocol, nqn = parse_text_record(record)
    transport = transport_of(protocol)
    if not port:
        raise ValueError(f"its port is {port}")
    usable = []
    for text in addresses:
        address = ipaddress.ip_address(text)
        if not (address.is_unspecified or address.is_multicast):
            usable.append(Service(name, transport, text, str(port), nqn, protocol))
    if not usable:
        raise ValueError("it has no address")
    return usable
