# SPDX-License-Identifier: BSD-3-Clause
"""Multicast DNS for both ends: on the interfaces that lead somewhere."""

from __future__ import annotations

import ipaddress
import logging

from ifaddr import get_adapters
from zeroconf import Error as ZeroconfError
from zeroconf.asyncio import AsyncZeroconf

# An interface that goes down is a warning with a traceback there, at every packet.
logging.getLogger("zeroconf").setLevel(logging.ERROR)


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


def open_mdns() -> AsyncZeroconf:
    """On the running loop; MdnsError where there is no network or no way to UDP port 5353."""
    addresses = outward_addresses()
    if not addresses:
        raise MdnsError("mDNS: no network interface has an address that others can go to")
    try:
        return AsyncZeroconf(interfaces=addresses)
    except (OSError, ZeroconfError, RuntimeError) as error:
        raise MdnsError(f"mDNS: UDP port 5353 cannot be used: {error}") from None
