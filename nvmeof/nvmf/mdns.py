# SPDX-License-Identifier: BSD-3-Clause
"""Multicast DNS for both ends, on interfaces with addresses that other machines can reach."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable

from ifaddr import get_adapters
from zeroconf import Error as ZeroconfError
from zeroconf.asyncio import AsyncZeroconf

from nvmf.errors import Error

# zeroconf logs an interface that is down as a warning with a traceback, at every packet.
logging.getLogger("zeroconf").setLevel(logging.ERROR)


NO_NETWORK = "mDNS: no network interface has an address reachable by other machines"


class MdnsError(Error):
    """Multicast DNS does not work on this machine; the message says why."""


def outward_addresses(version: int | None = None) -> list[str]:
    """Return the addresses of this machine that others can reach; version: 4, 6 or None (both)."""
    found = []
    for adapter in get_adapters():
        for ip in adapter.ips:
            text = ip.ip if isinstance(ip.ip, str) else ip.ip[0]
            address = ipaddress.ip_address(text)
            usable = not (address.is_loopback or address.is_link_local)
            if usable and version in (None, address.version):
                found.append(str(address))
    return found


def open_mdns(addresses: Iterable[str] | None = None) -> AsyncZeroconf:
    """Open mDNS on the running loop, at these local addresses, or at all outward ones.

    MdnsError if there is no network, or UDP port 5353 is not available.
    """
    interfaces = list(outward_addresses() if addresses is None else addresses)
    if not interfaces:
        raise MdnsError(NO_NETWORK)
    try:
        return AsyncZeroconf(interfaces=interfaces)
    except (OSError, ZeroconfError, RuntimeError) as error:
        raise MdnsError(f"mDNS: cannot use UDP port 5353: {error}") from None
