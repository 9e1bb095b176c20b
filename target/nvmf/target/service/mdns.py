# SPDX-License-Identifier: BSD-3-Clause
"""Announces the target's discovery service on the local network (mDNS): one service per port.

A failure to announce is logged, and does not affect serving.  The addresses of the machine are
checked every few seconds: networks that come up later are used, and a port that listens on every
address is announced with the present addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import secrets
import socket
import zlib
from collections import Counter
from collections.abc import Callable, Iterable

from zeroconf import Error as ZeroconfError
from zeroconf import NonUniqueNameException
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from nvmf.mdns import NO_NETWORK, MdnsError, open_mdns, outward_addresses
from nvmf.spec.dnssd import Protocol, service_type, text_record
from nvmf.spec.fabrics import RdmaProvider
from nvmf.target.commands.discovery import Port

log = logging.getLogger("nvmf.target")

_EMBEDDED: dict[int, Protocol] = {RdmaProvider.IWARP: "iwarp", RdmaProvider.ROCEV2: "roce"}
"""Protocols of the embedded devices."""

CLOSE_TIMEOUT = 0.8
"""Maximum seconds to withdraw announcements."""
LOOK_SECONDS = 5.0
"""Seconds between checks of the addresses, which also retry failed announcements."""
NAMES_MOST = 15
"""Names in turn of one port that the network may refuse; then each further one waits until the next
check (RFC 6762, 8.1), so that nobody can keep this target busy with renaming.
"""
_NAME_BYTES = 36
"""Maximum bytes of the target's name: a label of DNS has 63, of which a host name has 27 others."""
_TTL = 120
"""Seconds that other machines cache an announcement (RFC 6762, 10)."""


class Announcer:
    """Announces the current ports on the current addresses of this machine.

    name: name of this target, for people.  nqn: NQN of its discovery subsystem.  system: returns
    the protocol of the system's devices, or None if they are of several kinds.
    """

    def __init__(self, name: str, nqn: str, system: Callable[[], Protocol | None]) -> None:
        self._name = _shortened(name or socket.gethostname().split(".")[0] or "target")
        self._nqn = nqn
        self._own = secrets.token_hex(4)
        """Part that makes the host names of this target unique."""
        self._system = system
        self._zeroconf: AsyncZeroconf | None = None
        self._addresses: list[str] = []
        """Addresses on which it is announced."""
        self._services: dict[Port, AsyncServiceInfo] = {}
        self._wanted: list[Port] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failed = ""
        self._refused: Counter[Port] = Counter()
        """Names in turn that others claim, by the ports that are not announced for this reason."""
        self._silent: dict[Port, str] = {}
        """Ports that are not announced, and the reason that was logged."""

    def follow(self, ports: Iterable[Port]) -> None:
        """Announce these ports only, in the background."""
        self._wanted = list(ports)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            woken = self._wake.is_set()
            self._wake.clear()
            try:
                addresses = outward_addresses()  # which needs a descriptor
                if woken or addresses != self._addresses:
                    await self._announce(addresses, self._wanted)
                    self._failed = ""
            except (MdnsError, OSError, ZeroconfError) as error:
                sentence = str(error) or repr(error)
                if sentence != self._failed:
                    log.warning("cannot announce the discovery service: %s", sentence)
                self._failed = sentence
                self._addresses = []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()

    async def _announce(self, addresses: list[str], wanted: list[Port]) -> None:
        if self._zeroconf is None:
            self._zeroconf = open_mdns(addresses)
        elif addresses != self._addresses:
            await self._zeroconf.async_update_interfaces(list(addresses))
        self._addresses = addresses
        if not addresses:  # no host would receive a goodbye
            raise MdnsError(NO_NETWORK)
        services = {port: info for port in wanted if (info := self._service(port)) is not None}
        for port, old in list(self._services.items()):
            if port not in services or services[port].type != old.type:
                del self._services[port]
                await self._zeroconf.async_unregister_service(old)
        refused = ""
        for port, info in services.items():
            there = self._services.get(port)
            if there is None:
                try:
                    await self._register(self._zeroconf, port, info)
                except MdnsError as error:
                    refused = str(error)
                    continue
            elif set(there.parsed_addresses()) != set(info.parsed_addresses()):
                info.name = there.name  # perhaps changed because of a conflict
                await self._zeroconf.async_update_service(info)
            else:
                continue
            self._services[port] = info
            listed = ", ".join(info.parsed_addresses())
            log.info("mDNS: announced %s: port %d at %s", info.name, port.trsvcid, listed)
        if refused:
            raise MdnsError(refused)

    async def _register(self, zeroconf: AsyncZeroconf, port: Port, info: AsyncServiceInfo) -> None:
        """Announce a port under a name that nobody else has; raise MdnsError if that takes long."""
        plain = info.name.removesuffix(f".{info.type}")
        while True:
            if number := self._refused[port]:
                info.name = f"{plain}-{number + 1}.{info.type}"
            try:
                await zeroconf.async_register_service(info)
            except NonUniqueNameException:
                self._refused[port] += 1
                if number + 1 >= NAMES_MOST:
                    raise MdnsError(
                        f"others claim {NAMES_MOST} names in turn of port {port.trsvcid}; a "
                        f"further one is tried every {LOOK_SECONDS:g} s"
                    ) from None
            else:
                del self._refused[port]
                return

    def _service(self, port: Port) -> AsyncServiceInfo | None:
        addresses = addresses_of(port)
        if not addresses:
            alone = ipaddress.ip_address(port.traddr).is_loopback
            why = "listens on loopback only" if alone else "has no address reachable by others"
            self._say(port, f"mDNS: port %s {why}: not announced")
            return None
        protocol = _EMBEDDED.get(port.provider) or self._system()
        if protocol is None:
            self._say(
                port,
                "mDNS: port %s is not announced: the RDMA devices are of several kinds, but an "
                "announcement names only one",
                logging.WARNING,
            )
            return None
        self._silent.pop(port, None)
        kind = service_type(protocol)
        # Not used by any other target on this machine: zeroconf may not detect such a conflict,
        # because the answer goes to only one of the sockets that share a port.
        name = f"{self._name}-{port.trsvcid}-{zlib.crc32(port.traddr.encode()) & 0xFFFF:04x}"
        return AsyncServiceInfo(
            kind,
            f"{name}.{kind}",
            port=port.trsvcid,
            properties=dict(text_record(protocol, self._nqn)),
            # The machine's own name may have other addresses, and other targets on it.
            server=f"nvmeof-{name}-{self._own}.local.",
            parsed_addresses=addresses,
            host_ttl=_TTL,
            other_ttl=_TTL,
        )

    def _say(self, port: Port, why: str, level: int = logging.INFO) -> None:
        """Log the reason once, until it changes."""
        if self._silent.get(port) != why:
            log.log(level, why, port.traddr)
        self._silent[port] = why

    async def close(self) -> None:
        """Withdraw all announcements."""
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


def _shortened(name: str) -> str:
    """Return a name that fits into a label; it stays different from others with the same start."""
    if len(name.encode()) <= _NAME_BYTES:
        return name
    end = f"-{zlib.crc32(name.encode()) & 0xFFFF:04x}"
    return name.encode()[: _NAME_BYTES - len(end)].decode(errors="ignore") + end


def addresses_of(port: Port) -> list[str]:
    """Return the addresses at which other machines reach a port; none if it is local only."""
    address = ipaddress.ip_address(port.traddr)
    if address.is_loopback:
        return []
    if not address.is_unspecified:
        return [str(address)]
    return outward_addresses(address.version)


def system_protocol(transports: Iterable[str]) -> Protocol | None:
    """Return the protocol of devices with these transports (list_devices); None if they differ."""
    protocols: set[Protocol] = {
        "iwarp" if "iwarp" in transport.lower() else "roce" for transport in transports
    }
    return protocols.pop() if len(protocols) == 1 else None
