# SPDX-License-Identifier: BSD-3-Clause
"""The network device on the route to an address, and whether it has an RDMA device."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from dataclasses import dataclass

from nvmf.initiator.kernel.system import System, names

_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, slots=True)
class Route:
    """The route to an address, as far as known."""

    source: str | None
    """This host's address on the route; None if there is no route."""
    netdev: str | None
    """The network device of that address."""
    devices: tuple[str, ...]
    """RDMA devices of this host."""
    netdevs: frozenset[str]
    """Network devices below RDMA devices, as far as known."""

    @property
    def without_device(self) -> bool:
        """Whether the network device certainly has no RDMA device.

        An upper device (VLAN, bond) may have one. Therefore this is true only if all RDMA devices
        report their network devices, and this is not among them.
        """
        return bool(self.netdev and self.netdevs and self.netdev not in self.netdevs)


def find_route(traddr: str, host_traddr: str | None, system: System) -> Route:
    """Return the route from the routing table, without sending anything."""
    source = host_traddr or _source(traddr)
    devices = tuple(names(system.sysfs / "class" / "infiniband"))
    found = [_netdevs(name, system) for name in devices]
    known = frozenset[str]().union(*found) if all(found) else frozenset[str]()
    return Route(source, _netdev(source) if source else None, devices, known)


def _source(traddr: str) -> str | None:
    """Return this host's address on the route to an address."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(traddr, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _netdev(address: str) -> str | None:
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(wanted, ipaddress.IPv6Address):
        with contextlib.suppress(OSError), open("/proc/net/if_inet6") as table:
            for line in table:
                words = line.split()
                if bytes.fromhex(words[0]) == wanted.packed:
                    return words[5]
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("16s24x", name.encode()[:15])
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, request)
                if answer[20:24] == wanted.packed:  # ifr_addr.sin_addr of struct ifreq
                    return name
    return None


def _netdevs(device: str, system: System) -> frozenset[str]:
    """Return the network devices of an RDMA device's GIDs; those of unused GIDs cannot be read."""
    found: set[str] = set()
    ports = system.sysfs / "class" / "infiniband" / device / "ports"
    for port in names(ports):
        folder = ports / port / "gid_attrs" / "ndevs"
        for index in names(folder):
            with contextlib.suppress(OSError):
                found.add((folder / index).read_text().strip())
    return frozenset(found - {""})
