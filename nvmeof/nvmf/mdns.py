# SPDX-License-Identifier: BSD-3-Clause
"""Multicast DNS for both ends: on the interfaces that lead somewhere."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable

from ifaddr import get_adapters
from zeroconf import Error as ZeroconfError
from zeroconf.asyncio import AsyncZeroconf

# An interface that goes down is a warning with a traceback there, at every packet.
logging.getLogger("zeroconf").setLevel(logging.ERROR)


NO_NETWORK = "mDNS: no network interface has an address that others can go to"


class MdnsError(Exception):
    """Multicast DNS does not work here: a sentence."""


def outward_addresses(version: int | None = None) -> list[str]:
    """Addresses of this machine that others can go to; version: 4 or 6, None is both."""
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
    """On the running loop, at these addresses of this machine, or at all that lead outward.

    MdnsError where there is no network or no way to UDP port 5353.
    """
    interfaces = list(outward_addresses() if addresses is None else addresses)
    if not interfaces:
        raise MdnsError(NO_NETWORK)
    try:
        return AsyncZeroconf(interfaces=interfaces)
    except (OSError, ZeroconfError, RuntimeError) as error:
        raise MdnsError(f"mDNS: UDP port 5353 cannot be used: {error}") from None
