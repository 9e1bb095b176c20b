# SPDX-License-Identifier: BSD-3-Clause
"""The discovery subsystem: where the subsystems that a host may use are to be found."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nvmf.spec.fabrics import (
    TREQ_SQ_FLOW_CONTROL_OPTIONAL,
    AddressFamily,
    DiscoveryEntry,
    RdmaProvider,
    SubsystemType,
    encode_discovery_log,
)
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.spec.opcodes import AdminOpcode, LogId
from nvmf.spec.status import Status, StatusError
from nvmf.target.admin import ADMIN_HANDLERS
from nvmf.target.cm import ADMIN_QUEUE_DEPTH
from nvmf.target.controller import Controller
from nvmf.target.logpages import cut, parse
from nvmf.target.queue import Address
from nvmf.target.request import Completion, Handler, Request
from nvmf.target.subsystem import Subsystem

MAX_LOG_TRANSFER = 1 << 20
"""Bytes of the discovery log that one command reads at most."""


@dataclass(frozen=True, slots=True)
class Port:
    """An address that the target listens on."""

    portid: int
    traddr: str
    """Numeric; a wildcard stands for every address."""
    trsvcid: int
    provider: RdmaProvider = RdmaProvider.NONE


def discovery_subsystem(serial: str) -> Subsystem:
    """The subsystem that is always there, for every host."""
    return Subsystem(
        nqn=DISCOVERY_NQN,
        serial=serial,
        model="nvmeof-rdma discovery",
        allow_any_host=True,
        in_capsule=0,
        max_io_queues=0,
    )


def plain_address(traddr: str) -> str:
    """A numeric address without its scope, and an IPv4-mapped one as IPv4."""
    address = ipaddress.ip_address(traddr.split("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def reachable(port: Port, local: Address) -> str | None:
    """The address of a port for a host that connected to local; None where it has none for it."""
    here, there = ipaddress.ip_address(plain_address(local[0])), ipaddress.ip_address(port.traddr)
    if there.is_unspecified:
        # The IPv6 wildcard does not take IPv4: listeners ask for RDMA_OPTION_ID_AFONLY.
        return str(here) if here.version == there.version else None
    return str(there) if here.is_loopback == there.is_loopback else None


def entries(
    ports: Iterable[Port], subsystems: Iterable[Subsystem], hostnqn: str, local: Address
) -> list[DiscoveryEntry]:
    """An entry for each subsystem that the host may use, on each port that it can reach."""
    allowed = [s for s in subsystems if not s.discovery and s.allows(hostnqn)]
    found: list[DiscoveryEntry] = []
    for port in ports:
        traddr = reachable(port, local)
        if traddr is None:
            continue
        family = AddressFamily.IPV6 if ":" in traddr else AddressFamily.IPV4
        found += [
            DiscoveryEntry(
                adrfam=family,
                subtype=SubsystemType.NVME,
                # Nothing said of a secure channel, as nvmet: nvme-cli knows no name for more.
                treq=TREQ_SQ_FLOW_CONTROL_OPTIONAL,
                portid=port.portid,
                asqsz=ADMIN_QUEUE_DEPTH,
                trsvcid=str(port.trsvcid),
                subnqn=subsystem.nqn,
                traddr=traddr,
                rdma_prtype=port.provider,
            )
            for subsystem in allowed
        ]
    return found


LogSource = Callable[[Controller], tuple[int, list[DiscoveryEntry]]]
"""Generation counter and entries, for one discovery controller."""


def discovery_handlers(source: LogSource) -> dict[int, Handler]:
    """Admin commands of discovery controllers."""

    def get_log_page(controller: Controller, request: Request) -> Completion:
        log = parse(request, MAX_LOG_TRANSFER)
        if log.lid != LogId.DISCOVERY:
            raise StatusError(Status.INVALID_LOG_PAGE, f"there is no log page {log.lid:02x}h")
        data = cut(encode_discovery_log(*source(controller)), log)
        if not log.rae:
            controller.events.log_read(log.lid)
        return Completion(data=data)

    handlers = dict(ADMIN_HANDLERS)
    del handlers[AdminOpcode.ABORT]
    handlers[AdminOpcode.GET_LOG_PAGE] = get_log_page
    return handlers
