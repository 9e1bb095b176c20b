# SPDX-License-Identifier: BSD-3-Clause
"""The discovery subsystem: reports the addresses of the subsystems that a host may use."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from nvmf.spec.fabrics import (
    TREQ_SQ_FLOW_CONTROL_OPTIONAL,
    AddressFamily,
    DiscoveryEntry,
    EntryFlags,
    RdmaProvider,
    SubsystemType,
    TransportType,
)
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target.command.engine import Address
from nvmf.target.commands.cm import ADMIN_QUEUE_DEPTH
from nvmf.target.model.subsystem import Subsystem


@dataclass(frozen=True, slots=True)
class Port:
    """An address that the target listens on."""

    portid: int
    traddr: str
    """Numeric; a wildcard means all addresses."""
    trsvcid: int
    provider: RdmaProvider = RdmaProvider.NONE

    def takes(self, local: Address) -> bool:
        """Return whether a connection to this local address arrived at this port."""
        if self.trsvcid != local[1]:
            return False
        here = plain_address(local[0])
        return self.traddr == here or self.traddr == ("::" if ":" in here else "0.0.0.0")


@dataclass(frozen=True, slots=True)
class Referral:
    """A different discovery service that is reported to hosts."""

    traddr: str
    """Numeric."""
    trsvcid: int
    trtype: TransportType = TransportType.RDMA
    nqn: str = DISCOVERY_NQN
    portid: int = 0


def discovery_subsystem(serial: str, nqn: str = DISCOVERY_NQN) -> Subsystem:
    """Create the discovery subsystem, which always exists and admits all hosts."""
    return Subsystem(
        nqn=nqn,
        serial=serial,
        model="nvmeof-rdma discovery",
        allow_any_host=True,
        in_capsule=0,
        max_io_queues=0,
        discovery=True,
    )


def plain_address(traddr: str) -> str:
    """Return a numeric address without its scope, an IPv4-mapped one as IPv4."""
    address = ipaddress.ip_address(traddr.split("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def reachable(port: Port, local: Address) -> str | None:
    """Return a port's address for a host that connected to local; None if it is not reachable."""
    here, there = ipaddress.ip_address(plain_address(local[0])), ipaddress.ip_address(port.traddr)
    if there.is_unspecified:
        # The IPv6 wildcard does not accept IPv4: listeners set RDMA_OPTION_ID_AFONLY.
        return str(here) if here.version == there.version else None
    return str(there) if here.is_loopback == there.is_loopback else None


@dataclass(frozen=True, slots=True)
class View:
    """The discovery information for one host, independent of the port that it uses."""

    ports: tuple[Port, ...]
    referrals: tuple[Referral, ...]
    subsystems: tuple[str, ...]
    """NQNs of the subsystems that the host may use."""
    discovery_nqn: str = DISCOVERY_NQN

    def entries(self, local: Address, *, port_local: bool = False) -> Iterator[DiscoveryEntry]:
        """Yield the log for a host that connected to local, in the order of nvmet.

        First this discovery service on each of its ports, then the subsystems on each port, then
        other services.  port_local: only for the port that the host connected to.
        """
        there = self._addresses(local)
        shown = [(p, a) for p, a in there if not port_local or _is_port(p, a, local)]
        for port, traddr in shown:
            flags = EntryFlags.PERSISTENT
            if self._addresses((traddr, port.trsvcid)) == there:
                flags |= EntryFlags.DUPLICATE
            yield _entry(port, traddr, self.discovery_nqn, SubsystemType.CURRENT_DISCOVERY, flags)
        for port, traddr in shown:
            for nqn in self.subsystems:
                yield _entry(port, traddr, nqn, SubsystemType.NVME)
        for referral in self.referrals:
            yield _referral(referral)

    def _addresses(self, local: Address) -> list[tuple[Port, str]]:
        """Return the ports reachable for a host that connected to local, with their addresses."""
        found = ((port, reachable(port, local)) for port in self.ports)
        return [(port, traddr) for port, traddr in found if traddr is not None]


def _is_port(port: Port, traddr: str, local: Address) -> bool:
    return (traddr, port.trsvcid) == (plain_address(local[0]), local[1])


def _family(traddr: str) -> AddressFamily:
    return AddressFamily.IPV6 if ":" in traddr else AddressFamily.IPV4


def _entry(
    port: Port, traddr: str, nqn: str, subtype: SubsystemType, flags: int = 0
) -> DiscoveryEntry:
    return DiscoveryEntry(
        adrfam=_family(traddr),
        subtype=subtype,
        # Secure channel not specified, like nvmet: nvme-cli has no names for other values.
        treq=TREQ_SQ_FLOW_CONTROL_OPTIONAL,
        portid=port.portid,
        asqsz=ADMIN_QUEUE_DEPTH,
        eflags=flags,
        trsvcid=str(port.trsvcid),
        subnqn=nqn,
        traddr=traddr,
        rdma_prtype=port.provider,
    )


def _referral(referral: Referral) -> DiscoveryEntry:
    # The entry is for a different target: only the address of one port is known.
    rdma = referral.trtype == TransportType.RDMA
    return DiscoveryEntry(
        trtype=referral.trtype,
        adrfam=_family(referral.traddr),
        subtype=SubsystemType.REFERRAL,
        portid=referral.portid,
        asqsz=ADMIN_QUEUE_DEPTH,
        trsvcid=str(referral.trsvcid),
        subnqn=referral.nqn,
        traddr=referral.traddr,
        rdma_qptype=1 if rdma else 0,
        rdma_prtype=RdmaProvider.NONE if rdma else 0,
        rdma_cms=1 if rdma else 0,
    )
